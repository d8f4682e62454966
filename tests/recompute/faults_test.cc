// Steps that make dropped values again and are refused a request, each of them in turn, those of
// replays among them: undone to the byte, and run again to the bits of a training that keeps
// everything.
#include <doctest/doctest.h>

#include "brim/autograd/checkpoint.h"
#include "brim/nn/creation.h"
#include "brim/tests/recompute/modes.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/train/every_fault.h"

using namespace brim;
using namespace brim::testing;
using autograd::checkpoint;

namespace {

const std::vector<std::string> kPlanners{"direct", "caching", "arena"};

/// As `SmallNet`, its halves checkpointed, and, where it is `nested`, both of them together.
template <bool nested>
struct CheckpointedNet final : nn::Module {
  CheckpointedNet() {
    register_module("body", body);
    nn::initialize(*this, /*seed=*/3);
  }
  Tensor stem(Tensor x) {
    return body.bn1(body.conv1(std::move(x)), {.activation = Activation::relu});
  }
  Tensor rest(Tensor x) {
    x = body.bn2(body.conv2(x), {.residual = x, .activation = Activation::relu});
    return body.fc(body.drop(global_avg_pool(std::move(x))));
  }
  Tensor halves(Tensor x) {
    x = checkpoint([this](Tensor t) { return stem(std::move(t)); }, std::move(x));
    return checkpoint([this](Tensor t) { return rest(std::move(t)); }, std::move(x));
  }
  Tensor forward(Tensor x) override {
    if (!nested) return halves(std::move(x));
    return checkpoint([this](Tensor t) { return halves(std::move(t)); }, std::move(x));
  }
  SmallNet body;
};

template <class Net>
std::unique_ptr<nn::Module> make(Device device) {
  nn::CreationScope there({.device = device});
  return std::make_unique<Net>();
}

constexpr int64_t kBatch = 4, kSize = 8, kClasses = 4;

/// Of a step of `SmallNet`.
RecomputeOptions in_turns(const std::vector<autograd::Fate>& fates) {
  return planned_in_turns({.make_model = [] { return std::make_shared<SmallNet>(); },
                           .make_updating = make_zoo_updating,
                           .trainer = {.steps = 1},
                           .size = kSize,
                           .batch = kBatch},
                          fates);
}

void check(const RecomputeOptions& recompute, std::unique_ptr<nn::Module> (*make_net)(Device)) {
  for (const std::string& planner : kPlanners) {
    const Faults faults = check_every_fault({.planner = planner,
                                             .make = make_net,
                                             .problem = random_problem(kBatch, kSize, kClasses),
                                             .recompute = recompute});
    CHECK(faults.refused > 20);
    CHECK(faults.in_replays > 0);
  }
}

}  // namespace

TEST_CASE("a step that recomputes and is refused any request is undone, and repeats bit for bit") {
  using autograd::Fate;
  for (const RecomputeOptions& recompute :
       {free_recomputation(), segmented_recomputation(2, 4), segmented_recomputation(4, 2),
        in_turns({Fate::retain, Fate::remake}), in_turns({Fate::remake, Fate::keep, Fate::retain})})
    check(recompute, make<SmallNet>);
}

TEST_CASE("so is one that also offloads, and leaves nothing in the host") {
  using autograd::Fate;
  for (const RecomputeOptions& recompute :
       {in_turns({Fate::retain, Fate::offload}),
        in_turns({Fate::offload, Fate::remake, Fate::keep, Fate::retain})})
    for (const std::string& planner : kPlanners) {
      const Faults faults = check_every_fault({.planner = planner,
                                               .make = make<SmallNet>,
                                               .problem = random_problem(kBatch, kSize, kClasses),
                                               .recompute = recompute,
                                               .offload = {.enabled = true}});
      CHECK(faults.refused > 20);
      CHECK(faults.in_replays > 0);
      CHECK(faults.fetched > 0);
    }
}

TEST_CASE("so is one of a model that checkpoints functions, nested ones too, and with a policy") {
  for (const RecomputeOptions& recompute : {RecomputeOptions(), free_recomputation()}) {
    check(recompute, make<CheckpointedNet<false>>);
    check(recompute, make<CheckpointedNet<true>>);
  }
}

// Under the sanitizers the small networks have to do: the same code, in a hundredth of the time.
TEST_CASE("resnet20: a step of any way to recompute that is refused any request is undone" *
          doctest::skip(is_instrumented())) {
  const ZooTraining training{.name = "resnet20", .size = 8};
  for (const Mode& mode : modes_of(training)) {
    CAPTURE(mode.name);
    const Faults faults =
        check_every_fault({.planner = "arena",
                           .make = [&](Device device) { return make_zoo_model(training, device); },
                           .problem = random_problem(training.batch, training.size, kClasses),
                           .repeat_every = 16,
                           .recompute = mode.recompute,
                           .offload = mode.offload});
    CHECK(faults.refused > 2 * (20 + 20));
    CHECK(faults.in_replays > 0);
    CHECK((faults.fetched > 0) == mode.offload.enabled);
  }
}
