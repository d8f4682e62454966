// Proves that a training can be stopped anywhere, wherever it asks for bytes: what is under way is
// undone, a checkpoint is left, and the run that goes on has the bits of one that was never
// stopped.
#include <doctest/doctest.h>

#include <set>

#include "brim/base/random.h"
#include "brim/base/stop.h"
#include "brim/memory/plan/pack.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/losing_memory.h"
#include "brim/train/checkpoint.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// What a training came to, over all of its runs.
struct Result {
  std::vector<double> losses, accuracies, values;
  int64_t updates = 0;
  bool stopped = false;
  friend bool operator==(const Result&, const Result&) = default;
};

/// A run that nothing stops.
struct Calm {
  Result result;
  int64_t asked = 0, asked_in_plan = 0;  // how often whether to stop
};

const LosingCase kCase{.batch_norm = true, .evaluated = true, .averaged = true};

/// Goes on from the folder where there is one, and adds to what `result` has.
void run(Result& result, Checkpoints* checkpoints, const std::string& planner,
         const StopAsked& asked, bool fused = false,
         const std::function<void()>& when_planned = nullptr) {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  LosingTraining t(kCase);
  TrainerOptions options = t.options(planner);
  options.checkpoints = checkpoints;
  options.fused_update = fused;
  Trainer trainer(t.model, t.sgd, t.data(), options);
  trainer.on_step = [&](const StepReport& step) { result.losses.push_back(step.loss); };
  trainer.on_epoch = [&](const EpochReport& epoch) {
    result.accuracies.push_back(epoch.validation->accuracy);
  };
  trainer.on_replan = [&](const ReplanReport&) {
    if (when_planned) when_planned();
  };
  if (checkpoints != nullptr) trainer.resume();
  const StopScope may_stop(asked ? &asked : nullptr);
  trainer.run();
  result.updates = trainer.updates();
  result.stopped = trainer.stopped();
  result.values = t.values();
}

Calm undisturbed(const std::string& planner, bool fused = false) {
  Calm calm;
  auto never = [&] {
    ++calm.asked;
    return false;
  };
  run(calm.result, nullptr, planner, never, fused, [&] { calm.asked_in_plan = calm.asked; });
  REQUIRE(calm.result.losses.size() == kSteps);
  REQUIRE(calm.result.accuracies.size() == 2);
  return calm;
}

/// Stopped at question `n`, and then to the end. Returns how far the first run came.
int64_t check_stopped_at(int64_t n, const std::string& planner, const Calm& calm,
                         bool fused = false) {
  CAPTURE(planner);
  CAPTURE(n);
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), {});
  Result result;
  int64_t asked = 0;
  run(
      result, &checkpoints, planner, [&] { return ++asked >= n; }, fused);
  CHECK(result.stopped);
  const int64_t done = result.updates;
  const NewestCheckpoint left = checkpoints.newest();
  CHECK(left.checkpoint.has_value() == (done > 0));
  if (left.checkpoint) CHECK(left.checkpoint->updates == done);
  run(result, &checkpoints, planner, nullptr, fused);
  CHECK(result == calm.result);
  return done;
}

/// Now and then in the plan, and often afterwards. Returns between which updates it was stopped.
std::set<int64_t> check_stopped_anywhere(const std::string& planner, bool fused = false) {
  const Calm calm = undisturbed(planner, fused);
  std::set<int64_t> places;
  for (int64_t part : {0, 1, 2, 3})
    CHECK(check_stopped_at(1 + part * calm.asked_in_plan / 4, planner, calm, fused) == 0);
  for (int64_t n = calm.asked_in_plan + 1; n < calm.asked; n += 17)
    places.insert(check_stopped_at(n, planner, calm, fused));
  return places;
}

}  // namespace

TEST_CASE("stopped wherever it asks for bytes, a training goes on with the same bits") {
  for (const char* planner : kPlanners)
    CHECK(check_stopped_anywhere(planner).size() == kSteps + 1);  // also in the last evaluation
}

TEST_CASE("a fused update, which cannot be undone, is finished first") {
  CHECK(check_stopped_anywhere("arena", /*fused=*/true).size() > 2);
}

TEST_CASE("an evaluation that is cut off is made again, and the epoch's updates are not") {
  const Calm calm = undisturbed("");
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), {});
  Result result;
  {
    LosingTraining t(kCase);
    TrainerOptions options = t.options("");
    options.checkpoints = &checkpoints;
    Trainer trainer(t.model, t.sgd, t.data(), options);
    bool evaluates = false;
    trainer.on_step = [&](const StepReport& step) { result.losses.push_back(step.loss); };
    trainer.on_evaluation = [&](int64_t, int64_t) { evaluates = true; };
    trainer.should_stop = [&] { return evaluates; };
    trainer.run();
    CHECK(trainer.stopped());
  }
  CHECK(result.losses.size() == kSteps / 2);
  CHECK(checkpoints.newest().checkpoint.value().progress.batch == kSteps / 2);
  CHECK(!checkpoints.newest().checkpoint.value().progress.accuracy);
  run(result, &checkpoints, "", nullptr);
  CHECK(result == calm.result);
}

TEST_CASE("stopped before its first update, a training keeps nothing") {
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), {});
  Result result;
  run(result, &checkpoints, "arena", [] { return true; });
  CHECK(result.stopped);
  CHECK(result.updates == 0);
  CHECK(checkpoints.files().empty());
}

TEST_CASE("a search for a packing is stopped as well") {
  RandomStream random(RandomKey{7});
  std::vector<memory::Lifetime> lifetimes;
  for (int i = 0; i < 300; ++i) {
    const auto lower = static_cast<int64_t>(random.uniform(0, 100));
    const auto length = static_cast<int64_t>(random.uniform(1, 30));
    const auto size = static_cast<int64_t>(random.uniform(1, 10'000));
    lifetimes.push_back({.lower = lower, .upper = lower + length, .size = size});
  }
  int asked = 0;
  const StopAsked soon = [&] { return ++asked == 5; };
  const StopScope may_stop(&soon);
  CHECK_THROWS_AS(memory::pack(lifetimes), Stop);
}
