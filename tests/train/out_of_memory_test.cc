// A step that runs out of memory, wherever in it and under every planner: bytes, gradients, the
// state of model, optimizer and averages are as before it, and the same step then runs, with the
// bits of one that nothing disturbed.
#include "brim/memory/out_of_memory.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>

#include "brim/autograd/trace_recorder.h"
#include "brim/memory/arena_planner.h"
#include "brim/nn/creation.h"
#include "brim/nn/models/registry.h"
#include "brim/tests/train/faults.h"

using namespace brim;
using namespace brim::testing;

namespace {

struct Case {
  std::string planner;
  std::function<std::unique_ptr<nn::Module>(Device)> make;
  Problem problem;
  /// After how many refused attempts state is compared, which nothing would mend in between, and
  /// the step run again.
  int64_t repeat_every = 1;
};

Tensor on_meta(const Tensor& tensor) {
  return empty(tensor.shape(), {.dtype = tensor.dtype(), .device = Device::meta()});
}

memory::MakePlanner planner_of(const Case& c) {
  if (c.planner != "arena") return memory::planner_named(c.planner);
  auto account = std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(), memory::planner_named("direct"));
  memory::AccountScope scope(account);
  autograd::TraceRecorder recorder(account);
  std::unique_ptr<nn::Module> model = c.make(Device::meta());
  Training training(*model);
  Problem problem{on_meta(c.problem.images), on_meta(c.problem.labels)};
  for (int i = 0; i < 3; ++i) training.update(problem);
  return memory::arena_planner(std::make_shared<memory::Plan>(memory::make_plan(recorder.take())));
}

/// Requests that were refused, each once.
int64_t check_every_fault(const Case& c) {
  CAPTURE(c.planner);
  std::unique_ptr<nn::Module> calm = c.make(Device::cpu());
  Training undisturbed(*calm);
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(), planner_of(c));
  memory::AccountScope scope(account);
  std::unique_ptr<nn::Module> model = c.make(Device::cpu());
  Training disturbed(*model);
  Problem problem{clone(c.problem.images), clone(c.problem.labels)};
  int64_t before = account->stats().live, n = 1;
  auto update = [&] {
    REQUIRE(disturbed.update(problem) == undisturbed.update(c.problem));
    Snapshot now(undisturbed);
    REQUIRE(now.difference(disturbed) == "");
    return now;
  };
  Snapshot state = update();
  for (;; ++n) {
    CAPTURE(n);
    auto shortage = refused_at(*account, n, [&] { disturbed.update(problem); });
    if (!shortage) break;
    REQUIRE(account->stats().live == before);
    REQUIRE(!disturbed.has_gradients());
    REQUIRE(shortage->injected);
    REQUIRE(shortage->section.has_value());  // the message can say where in the step it was
    if (n % c.repeat_every != 0) continue;
    REQUIRE(state.difference(disturbed) == "");
    state = update();
  }
  undisturbed.update(c.problem);  // the last one was not refused
  REQUIRE(Snapshot(undisturbed).difference(disturbed) == "");
  update();
  CHECK(disturbed.ema.updates() == disturbed.step.updates());
  CHECK(account->stats().live == before);
  return n - 1;
}

const std::vector<std::string> kPlanners{"direct", "caching", "arena"};

void check_model(const std::string& name, int64_t size, int64_t least) {
  for (const std::string& planner : kPlanners)
    CHECK(check_every_fault({.planner = planner,
                             .make =
                                 [&](Device device) {
                                   return nn::make_model(
                                       name, {.classes = 4, .seed = 1, .device = device});
                                 },
                             .problem = random_problem(2, size, 4),
                             .repeat_every = 16}) > least);
}

const bool kSkipSlow = std::getenv("BRIM_SKIP_SLOW") != nullptr;

}  // namespace

TEST_CASE("a step that is refused any request is undone, and repeats bit for bit") {
  for (const std::string& planner : kPlanners)
    CHECK(check_every_fault({.planner = planner,
                             .make =
                                 [](Device device) {
                                   nn::CreationScope there({.device = device});
                                   return std::make_unique<SmallNet>();
                                 },
                             .problem = random_problem(4, 8, 4)}) > 20);
}

// Under the sanitizers the small network has to do: the same code, in a hundredth of the time.
// Each convolution, norm and addition asks for one buffer at least, forward and backward.
TEST_CASE("resnet20: a step that is refused any request is undone" * doctest::skip(kSkipSlow)) {
  check_model("resnet20", 8, /*least=*/2 * (20 + 20));
}

TEST_CASE("mobilenet_v3_small: a step that is refused any request is undone" *
          doctest::skip(kSkipSlow)) {
  check_model("mobilenet_v3_small", 32, /*least=*/2 * (52 + 34));
}
