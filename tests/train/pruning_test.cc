// A training whose model loses channels on the way: what stays keeps its momentum and averages, the
// budget holds, what is predicted is what is measured, and it goes on from checkpoints on either
// side of a pruning with the same bits.
#include "brim/train/pruning.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "brim/memory/arena_planner.h"
#include "brim/nn/models/registry.h"
#include "brim/optim/adamw.h"
#include "brim/optim/loss_scaler.h"
#include "brim/optim/sgd.h"
#include "brim/shrink/weight_masks.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/values.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int64_t kSteps = 12, kImages = 8;  // in epochs of five
const Shape kInput{1, 16, 16, 3};

struct RunOptions {
  std::string optimizer = "sgd";
  shrink::Criterion criterion = shrink::Criterion::l2;
  std::string planner = "arena";
  int64_t capacity = memory::Source::kUnlimited;
  int64_t micro_batch = 0;
  bool batch_may_grow = false;
  Checkpoints* checkpoints = nullptr;
  int64_t stop_after = 0;  // updates; 0: to the end
};

struct Run {
  std::vector<double> losses, values;  // values: all that the training holds between steps
  std::vector<PruneReport> prunings;
  std::vector<ReplanReport> plans;
  TrainerCounts counts;
  memory::AccountStats memory;
  double flops = 0;
};

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, nn::Module& model) {
  if (name == "sgd")
    return std::make_unique<optim::Sgd>(model.named_parameters(),
                                        optim::SgdOptions{.momentum = 0.9, .weight_decay = 1e-3});
  return std::make_unique<optim::AdamW>(model.named_parameters(), optim::AdamWOptions{});
}

PruningOptions pruning(shrink::Criterion criterion) {
  return {.schedule = {.target = 0.5, .begin = 3, .end = 9, .every = 3},
          .channels = {.criterion = criterion, .multiple = 1}};
}

/// Goes on from the newest checkpoint, if there is one.
Run train(const RunOptions& o) {
  auto account = memory::capped_host_account("direct", o.capacity);
  memory::AccountScope scope(account);
  auto model = nn::make_model("resnet20", {.classes = 4});
  auto optimizer = make_optimizer(o.optimizer, *model);
  optim::Ema ema(*model, {.decay = 0.9});
  RandomBatches source({.images = kImages, .batches = 5, .size = 16});
  PruningOptions prune = pruning(o.criterion);
  prune.batch_may_grow = o.batch_may_grow;
  Trainer trainer(*model, *optimizer, {source},
                  {.steps = kSteps,
                   .schedule = optim::ConstantSchedule{.rate = 0.01},
                   .ema = &ema,
                   .micro_batch = o.micro_batch,
                   .planner = o.planner,
                   .pruning = prune,
                   .checkpoints = o.checkpoints});
  Run run;
  trainer.on_step = [&](const StepReport& step) { run.losses.push_back(step.loss); };
  trainer.on_prune = [&](const PruneReport& report) { run.prunings.push_back(report); };
  trainer.on_replan = [&](const ReplanReport& report) { run.plans.push_back(report); };
  trainer.should_stop = [&] { return trainer.updates() == o.stop_after; };
  if (o.checkpoints != nullptr) trainer.resume();
  trainer.run();
  run.counts = trainer.counts();
  run.memory = account->stats();
  run.flops = shrink::flops_of(kInput)(*model);
  std::vector<nn::NamedTensor> tensors = model->named_parameters();
  for (const auto& more : {model->named_buffers(), state_of(*optimizer, &ema)})
    tensors.insert(tensors.end(), more.begin(), more.end());
  run.values = doubles_of(tensors);
  return run;
}

}  // namespace

TEST_CASE(
    "pruning: a training ends with the FLOPs that its schedule says, planned anew each time") {
  auto model = nn::make_model("resnet20", {.classes = 4, .device = Device::meta()});
  const double whole = shrink::flops_of(kInput)(*model);
  for (const char* optimizer : {"sgd", "adamw"})
    for (const char* planner : {"arena", "caching", "direct"}) {
      if (is_instrumented() && planner != std::string("arena")) continue;
      CAPTURE(optimizer);
      CAPTURE(planner);
      const Run run = train({.optimizer = optimizer, .planner = planner});
      REQUIRE(run.losses.size() == kSteps);
      REQUIRE(run.prunings.size() == 3);
      CHECK(run.flops <= 0.5 * whole);
      CHECK(run.flops > 0.4 * whole);
      for (size_t i = 0; i < 3; ++i) {
        CHECK(run.prunings[i].step == static_cast<int64_t>(3 + 3 * i));
        CHECK(run.prunings[i].before == whole);
      }
      CHECK(run.prunings[0].cost > run.prunings[1].cost);
      CHECK(run.prunings[2].cost == run.flops);
      REQUIRE(run.plans.size() == 4);
      for (size_t i = 1; i < run.plans.size(); ++i) {
        CHECK(run.plans[i].why == "the model has fewer channels");
        CHECK(run.plans[i].predicted.peak_live < run.plans[i - 1].predicted.peak_live);
      }
      CHECK(run.counts.violations == 0);
      CHECK(run.counts.out_of_memory == 0);
      CHECK(run.memory.mismatches == 0);
      CHECK(run.memory.live == run.plans.back().predicted.state);
    }
}

TEST_CASE("pruning: the bits are the same with any planner and micro-batches of the same size") {
  const Run arena = train({});
  for (const char* planner : {"caching", "direct"}) {
    const Run other = train({.planner = planner});
    CHECK(other.losses == arena.losses);
    CHECK(other.values == arena.values);
  }
}

TEST_CASE("pruning: gone on from checkpoints on either side of a pruning, the bits are the same") {
  for (shrink::Criterion criterion : {shrink::Criterion::l2, shrink::Criterion::taylor})
    for (const char* optimizer : {"sgd", "adamw"}) {
      // Under instrumentation two of the four.
      if (is_instrumented() &&
          (criterion == shrink::Criterion::l2) != (optimizer == std::string("sgd")))
        continue;
      const Run whole = train({.optimizer = optimizer, .criterion = criterion});
      for (int64_t updates : {3, 4, 9, 10}) {
        CAPTURE(optimizer);
        CAPTURE(updates);
        TempFolder folder;
        Checkpoints checkpoints(folder.path(), {});
        const Run first = train({.optimizer = optimizer,
                                 .criterion = criterion,
                                 .checkpoints = &checkpoints,
                                 .stop_after = updates});
        const Run second =
            train({.optimizer = optimizer, .criterion = criterion, .checkpoints = &checkpoints});
        std::vector<double> losses = first.losses;
        losses.insert(losses.end(), second.losses.begin(), second.losses.end());
        CHECK(losses == whole.losses);
        CHECK(second.values == whole.values);
        CHECK(first.prunings.size() + second.prunings.size() == 3);
      }
    }
}

TEST_CASE("pruning: within a budget, whose micro-batches grow into what the channels leave") {
  const int64_t capacity = train({.micro_batch = 2}).plans.front().predicted.peak_reserved;
  const Run run = train({.capacity = capacity});
  CHECK(run.counts.violations == 0);
  CHECK(run.counts.out_of_memory == 0);
  CHECK(run.memory.peak_reserved <= capacity);
  REQUIRE(run.plans.size() == 4);
  CHECK(run.plans.front().micro_batch < kImages);
  CHECK(run.plans.back().micro_batch > run.plans.front().micro_batch);
}

TEST_CASE(
    "pruning: micro-batches grow beyond the trainer's own when asked, from the first pruning on") {
  for (bool asked : {false, true}) {
    const Run run = train({.micro_batch = 2, .batch_may_grow = asked});
    REQUIRE(run.plans.size() == 4);
    CHECK(run.plans.front().micro_batch == 2);
    for (size_t i = 1; i < 4; ++i) CHECK(run.plans[i].micro_batch == (asked ? kImages : 2));
  }
  const Run whole = train({.micro_batch = 2, .batch_may_grow = true});
  for (int64_t stop : {3, 4, 7}) {
    if (is_instrumented() && stop != 4) continue;
    CAPTURE(stop);
    TempFolder folder;
    Checkpoints checkpoints(folder.path(), {});
    RunOptions o{.micro_batch = 2, .batch_may_grow = true, .checkpoints = &checkpoints};
    o.stop_after = stop;
    train(o);
    o.stop_after = 0;
    CHECK(train(o).values == whole.values);
  }
}

TEST_CASE("pruning: momentum and averages of what stays are what they were, entry by entry") {
  auto model = nn::make_model("resnet20", {.classes = 4});
  auto optimizer = make_optimizer("adamw", *model);
  optim::Ema ema(*model);
  for (const nn::NamedTensor& tensor : state_of(*optimizer, &ema))
    fill_uniform(tensor.tensor, -1, 1, derive(RandomKey{1}, tensor.name));
  std::map<std::string, Tensor> before;
  for (const nn::NamedTensor& tensor : state_of(*optimizer, &ema))
    before[tensor.name] = clone(tensor.tensor);
  const shrink::Pruner pruner(*model, kInput, {.multiple = 1});
  const shrink::PruningPlan plan = pruner.to(0.5, shrink::flops_of(kInput));
  shrink::remove_channels(*model, plan.cut, state_of(*optimizer, &ema));
  int64_t cut = 0;
  for (const nn::NamedTensor& tensor : state_of(*optimizer, &ema)) {
    CAPTURE(tensor.name);
    const std::string owner = tensor.name.substr(tensor.name.find('.') + 1);
    CHECK(tensor.tensor.shape() == model->tensor(owner).shape());
    const Tensor& old = before.at(tensor.name);
    // Every index of what is left, looked up in what there was.
    std::vector<std::vector<int64_t>> kept;
    for (int axis = 0; axis < old.dim(); ++axis) {
      std::vector<int64_t>& all = kept.emplace_back();
      for (int64_t i = 0; i < old.size(axis); ++i) all.push_back(i);
    }
    for (const shrink::KeptAxis& axis : plan.cut.kept(owner))
      kept[static_cast<size_t>(axis.axis)] = axis.indices;
    const std::vector<float> values = tensor.tensor.to_vector<float>();
    const auto* was = old.data<float>();
    std::vector<size_t> at(kept.size(), 0);
    bool same = true;
    for (float value : values) {
      int64_t offset = 0;
      for (size_t axis = 0; axis < at.size(); ++axis)
        offset += kept[axis][at[axis]] * old.strides()[static_cast<int>(axis)];
      same = same && value == was[offset];
      for (size_t axis = at.size(); axis-- > 0;) {
        if (++at[axis] < kept[axis].size()) break;
        at[axis] = 0;
      }
    }
    CHECK(same);
    if (values.size() < static_cast<size_t>(old.numel())) ++cut;
  }
  CHECK(cut > 40);
  for (const nn::NamedTensor& parameter : optimizer->parameters())
    CHECK(parameter.tensor.shape() == model->tensor(parameter.name).shape());
}

TEST_CASE("pruning: by gradients not with a scaler or a fused update, nor by what is not finite") {
  auto model = nn::make_model("resnet20", {.classes = 4});
  auto optimizer = make_optimizer("sgd", *model);
  RandomBatches source({.images = kImages, .batches = 5, .size = 16});
  optim::LossScaler scaler;
  auto refusal = [&](bool fused, optim::LossScaler* with) {
    return error_text<ValueError>([&] {
      Trainer(*model, *optimizer, {source},
              {.steps = kSteps,
               .fused_update = fused,
               .precision = with == nullptr ? Dtype::float32 : Dtype::float16,
               .scaler = with,
               .pruning = pruning(shrink::Criterion::taylor)});
    });
  };
  CHECK(contains(refusal(true, nullptr), "looks at gradients between updates"));
  CHECK(contains(refusal(false, &scaler), "looks at gradients between updates"));
  fill(model->tensor("layer1.0.conv1.weight"), std::nan(""));
  const std::string text = error_text<ValueError>([&] { shrink::Pruner(*model, kInput); });
  CHECK(contains(text, "are not finite"));
}

TEST_CASE("pruning: the schedule is cubic, and refused where it makes no sense or cannot be had") {
  const shrink::PruneSchedule schedule{.target = 0.5, .begin = 100, .end = 300, .every = 100};
  CHECK(schedule.count() == 3);
  CHECK_FALSE(schedule.at(99));
  CHECK_FALSE(schedule.at(150));
  CHECK(schedule.at(100).value() == doctest::Approx(0.5 + 0.5 * 8 / 27));
  CHECK(schedule.at(200).value() == doctest::Approx(0.5 + 0.5 / 27));
  CHECK(schedule.at(300).value() == 0.5);
  CHECK_FALSE(schedule.at(400));
  CHECK_THROWS_AS((shrink::PruneSchedule{.begin = 5, .end = 4}.validate()), ValueError);
  CHECK_THROWS_AS((shrink::PruneSchedule{.target = 0}.validate()), ValueError);
  CHECK_THROWS_AS((shrink::PruneSchedule{.every = 0}.validate()), ValueError);
  auto model = nn::make_model("resnet20", {.classes = 4});
  const std::string text = error_text<ValueError>(
      [&] { Pruning(*model, kInput, {.schedule = {.target = 0.001, .begin = 1, .end = 1}}); });
  CHECK(contains(text, "cannot be had: the least possible is"));
}

TEST_CASE("pruning: what masks take is planned") {
  struct Masked {
    std::unique_ptr<nn::Module> model;
    std::unique_ptr<shrink::WeightMasks> masks;
  };
  const auto make = [](Device device) {
    auto made = std::make_shared<Masked>();
    made->model = nn::make_model("resnet20", {.classes = 4, .device = device});
    made->masks = std::make_unique<shrink::WeightMasks>(*made->model);
    return std::shared_ptr<nn::Module>(made, made->model.get());
  };
  const int64_t images = 8;
  RehearsalOptions rehearsal{
      .make_model = [&] { return make(Device::meta()); },
      .make_updating = [](nn::Module& model) { return Updating{make_optimizer("sgd", model)}; },
      .trainer = {.steps = 3},
      .size = 16,
      .batch = images,
      .updates = 3};
  const RehearsedPlan plan =
      plan_under("arena", [&](const auto& held) { rehearse(rehearsal, held); });
  RehearsalOptions without = rehearsal;
  without.make_model = [] {
    return std::shared_ptr<nn::Module>(
        nn::make_model("resnet20", {.classes = 4, .device = Device::meta()}));
  };
  const RehearsedPlan unmasked =
      plan_under("arena", [&](const auto& held) { rehearse(without, held); });
  CHECK(plan.predicted.peak_live > unmasked.predicted.peak_live + 260'000);  // a byte a weight

  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(memory::host_memory()),
      memory::arena_planner(plan.plan));
  memory::AccountScope scope(account);
  {
    auto model = make(Device::cpu());
    auto optimizer = make_optimizer("sgd", *model);
    RandomBatches source({.images = images, .batches = 3, .size = 16});
    Trainer(*model, *optimizer, {source}, rehearsal.trainer).run();
  }
  CHECK(account->stats().peak_live == plan.predicted.peak_live);
  CHECK(account->stats().peak_reserved == plan.predicted.peak_reserved);
  CHECK(account->stats().mismatches == 0);
}
