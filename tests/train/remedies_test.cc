// Smaller batches that fit: found by plans, named in the error of a trainer's step, and true.
#include "brim/train/remedies.h"

#include <doctest/doctest.h>

#include "brim/nn/creation.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int kSize = 8;

StepMemory peak_of(int64_t bytes) { return {.peak_reserved = bytes, .peak_live = bytes}; }

/// A training of `SmallNet` with SGD, on the account that is in force.
struct Training {
  explicit Training(int64_t batch)
      : source({.count = batch, .size = kSize, .classes = 4}, /*batches=*/2),
        trainer(model, sgd, {source},
                {.steps = 2, .schedule = optim::ConstantSchedule{.rate = 0.1}}) {}

  SmallNet model;
  optim::Sgd sgd{model.named_parameters(), {.momentum = 0.9}};
  SyntheticSource source;
  Trainer trainer;
};

/// The same on the meta device, under the direct planner.
std::optional<StepMemory> plan(int64_t batch) {
  auto account = std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(), memory::planner_named("direct"));
  memory::AccountScope scope(account);
  nn::CreationScope on_meta({.device = Device::meta()});
  SmallNet model;
  optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
  TrainStep step(model, sgd);
  StepMemory memory{.state = account->stats().live};
  for (int i = 0; i < 2; ++i)
    step.run(0.1, [&] {
      return training_loss(model, data::empty_batch(batch, kSize, Device::meta()), {});
    });
  memory.peak_reserved = account->stats().peak_reserved;
  return memory;
}

/// The error of training with `batch` images in `bytes` that `account` still has.
memory::OutOfMemory error_of(memory::Account& account, int64_t batch) {
  Training training(batch);
  int64_t live = account.stats().live;
  try {
    training.trainer.run();
  } catch (const memory::OutOfMemory& error) {
    CHECK(account.stats().live == live);
    return error;
  }
  FAIL("it fits");
  throw 0;
}

}  // namespace

TEST_CASE("the largest batch that fits is found with a logarithm of plans") {
  int plans = 0;
  PlanBatch linear = [&](int64_t batch) -> std::optional<StepMemory> {
    ++plans;
    return peak_of(1000 + 10 * batch);
  };
  SmallerBatch found = find_smaller_batch(linear, 1000, 1000 + 489);
  CHECK(found.least.batch == 1);
  REQUIRE(found.fits);
  CHECK(found.fits->batch == 48);
  CHECK(found.fits->memory.peak_reserved == 1480);
  CHECK(plans == 12);  // 1, 2, 4, ... 64, then five between 32 and 64
  CHECK(to_string(*found.fits) == "batch 48 fits: predicted peak 1.4 KiB");
  CHECK(find_smaller_batch(linear, 49, 1489).fits->batch == 48);
  CHECK(find_smaller_batch(linear, 2, 1010).fits->batch == 1);
  CHECK(!find_smaller_batch(linear, 2, 1009).fits);
  CHECK(!find_smaller_batch(linear, 1, 1009).fits);
}

TEST_CASE("a model that cannot train with one image starts from two") {
  PlanBatch pairs = [](int64_t batch) -> std::optional<StepMemory> {
    if (batch < 2) return {};
    return peak_of(100 * batch);
  };
  SmallerBatch found = find_smaller_batch(pairs, 8, 250);
  CHECK(found.least.batch == 2);
  CHECK(found.fits->batch == 2);
  found = find_smaller_batch(pairs, 8, 150);
  CHECK(found.least.memory.peak_reserved == 200);
  CHECK(!found.fits);
  CHECK_THROWS_WITH_AS(find_smaller_batch(pairs, 1, 50), "remedies: there is no plan for batch 1",
                       ValueError);
}

TEST_CASE("a trainer's step that runs out names a batch, which then trains") {
  StepMemory twenty = *plan(20);
  auto account = memory::capped_host_account("direct", twenty.peak_reserved);
  memory::AccountScope scope(account);
  memory::OutOfMemory error = error_of(*account, 32);
  std::string remedy = to_string(BatchChoice{20, twenty});
  CHECK(error.shortage().remedies == std::vector{remedy});
  CHECK(std::string(error.what()).ends_with("\n  planned, and found to fit:\n    " + remedy));
  CHECK(error.shortage().section == memory::Section{memory::SectionKind::first_micro_step, 32});
  Training fits(20);
  CHECK_NOTHROW(fits.trainer.run());
  CHECK(account->stats().peak_reserved == twenty.peak_reserved);
}

TEST_CASE("what others hold of the device is left out of the room for a batch") {
  auto account = memory::capped_host_account("direct", plan(20)->peak_reserved);
  memory::AccountScope scope(account);
  Tensor held = empty({plan(20)->peak_reserved - plan(12)->peak_reserved}, {.dtype = Dtype::uint8});
  CHECK(error_of(*account, 32).shortage().remedies ==
        std::vector{to_string(BatchChoice{12, *plan(12)})});
}

TEST_CASE("no remedy: where nothing fits, where planning fails, and for injected faults") {
  auto account = memory::capped_host_account("direct", plan(1)->peak_reserved - 64);
  memory::AccountScope scope(account);
  memory::OutOfMemory error = error_of(*account, 2);
  CHECK(error.shortage().remedies.empty());
  PlanBatch broken = [](int64_t) -> std::optional<StepMemory> { throw ValueError("plan", "no"); };
  CHECK(with_remedies(error, broken, 2).what() == std::string(error.what()));
  memory::Shortage injected = error.shortage();
  injected.injected = true;
  PlanBatch tiny = [](int64_t) -> std::optional<StepMemory> { return peak_of(64); };
  CHECK(with_remedies(memory::OutOfMemory(injected), tiny, 2).shortage().remedies.empty());
  CHECK(with_remedies(error, tiny, 2).shortage().remedies.size() == 1);
}
