// A training that goes on from a checkpoint with other micro-batches, as on a device with fewer
// bytes, or with more: the same as one that nothing interrupted, to rounding; with the same
// micro-batches, to the bit.
#include <doctest/doctest.h>

#include <cmath>

#include "brim/optim/ema.h"
#include "brim/tests/train/checkpointed_training.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/values.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int64_t kSteps = 14;  // in epochs of six

struct Run {
  std::vector<double> losses, values;  // of the steps; parameters, optimizer state and averages
  std::vector<double> epochs;          // mean losses of those that ended in this run
  int64_t micro_batch = 0, peak = 0;   // images and bytes, at the end
};

struct RunOptions {
  std::string optimizer = "sgd";
  int64_t micro_batch = 0;
  std::string planner = {};  // one chooses the micro-batch by `capacity`
  int64_t capacity = memory::Source::kUnlimited;
  Checkpoints* checkpoints = nullptr;
  int64_t stop_after = 0;  // updates; 0: to the end
};

/// Goes on from the newest checkpoint, if there is one.
Run train(const RunOptions& o) {
  auto account = memory::capped_host_account("direct", o.capacity);
  memory::AccountScope scope(account);
  PlainNet model;
  auto optimizer = make_optimizer(o.optimizer, model);
  optim::Ema ema(model, {.decay = 0.9});
  RandomBatches source({.images = 12, .batches = 6, .ignored = 3});
  Trainer trainer(model, *optimizer, {source},
                  {.steps = kSteps,
                   .seed = 4,
                   .schedule = optim::CosineSchedule{.rate = o.optimizer == "sgd" ? 0.1 : 0.01,
                                                     .steps = kSteps},
                   .input = {.dtype = Dtype::float64},
                   .clip = {.norm = 0.5},
                   .ema = &ema,
                   .micro_batch = o.micro_batch,
                   .planner = o.planner,
                   .checkpoints = o.checkpoints});
  Run run;
  trainer.on_step = [&](const StepReport& step) { run.losses.push_back(step.loss); };
  trainer.on_epoch = [&](const EpochReport& epoch) { run.epochs.push_back(epoch.train_loss); };
  trainer.should_stop = [&] { return trainer.updates() == o.stop_after; };
  if (o.checkpoints != nullptr) trainer.resume();
  trainer.run();
  run.micro_batch = trainer.micro_batch();
  run.peak = account->stats().peak_reserved;
  std::vector<nn::NamedTensor> tensors = model.named_parameters();
  for (const auto& more : {optimizer->named_state(), ema.named_state()})
    tensors.insert(tensors.end(), more.begin(), more.end());
  run.values = doubles_of(tensors);
  return run;
}

/// Stopped after so many updates with `before`, and then to the end with `after`, as one run.
Run train_twice(RunOptions before, RunOptions after, int64_t updates) {
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), {});
  before.checkpoints = after.checkpoints = &checkpoints;
  before.stop_after = updates;
  Run first = train(before);
  REQUIRE(static_cast<int64_t>(first.losses.size()) == updates);
  Run second = train(after);
  first.losses.insert(first.losses.end(), second.losses.begin(), second.losses.end());
  first.epochs.insert(first.epochs.end(), second.epochs.begin(), second.epochs.end());
  second.losses = first.losses;
  second.epochs = first.epochs;
  return second;
}

void check_near(const Run& a, const Run& b) {
  CHECK(largest_difference(a.losses, b.losses) < 1e-9);
  CHECK(largest_difference(a.epochs, b.epochs) < 1e-9);
  CHECK(largest_difference(a.values, b.values) < 1e-9);
}

}  // namespace

TEST_CASE(
    "gone on from a checkpoint with other micro-batches, a training is the same to rounding") {
  for (const char* optimizer : {"sgd", "adamw"}) {
    CAPTURE(optimizer);
    const Run whole = train({.optimizer = optimizer});
    REQUIRE(whole.losses.size() == kSteps);
    REQUIRE(whole.epochs.size() == 3);
    REQUIRE(std::abs(whole.losses.front() - whole.losses.back()) > 1e-3);
    // Smaller, larger, and uneven parts: 12 images are 5, 5 and 2.
    for (auto [before, after] : {std::pair{12, 4}, {4, 12}, {12, 5}, {5, 1}})
      for (int64_t updates : {1, 6, 9}) {  // within an epoch and at its end
        CAPTURE(before);
        CAPTURE(after);
        CAPTURE(updates);
        check_near(train_twice({.optimizer = optimizer, .micro_batch = before},
                               {.optimizer = optimizer, .micro_batch = after}, updates),
                   whole);
      }
  }
}

TEST_CASE("with the same micro-batches it has the same bits") {
  for (int64_t micro_batch : {12, 5}) {
    const Run whole = train({.micro_batch = micro_batch});
    const Run twice =
        train_twice({.micro_batch = micro_batch}, {.micro_batch = micro_batch}, /*updates=*/9);
    CHECK(twice.losses == whole.losses);
    CHECK(twice.epochs == whole.epochs);
    CHECK(twice.values == whole.values);
  }
}

TEST_CASE("a checkpoint from a large device goes on within the bytes of a small one, and back") {
  const Run whole = train({.planner = "arena"});
  REQUIRE(whole.micro_batch == 12);
  RunOptions large{.planner = "arena", .capacity = whole.peak};
  RunOptions small{.planner = "direct", .capacity = whole.peak * 6 / 10};
  for (int64_t updates : {3, 6}) {
    CAPTURE(updates);
    const Run shrunk = train_twice(large, small, updates),
              grown = train_twice(small, large, updates);
    CHECK(shrunk.micro_batch < 12);
    CHECK(shrunk.peak <= small.capacity);
    CHECK(grown.micro_batch == 12);
    check_near(shrunk, whole);
    check_near(grown, whole);
  }
}
