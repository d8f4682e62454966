// An evaluation that runs out of memory: the training is planned again and evaluates, or ends with
// the message and a checkpoint, from which it evaluates after all. Whatever happens, modes,
// weights, averages and bytes are as before the evaluation.
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/losing_memory.h"
#include "brim/train/checkpoint.h"

using namespace brim;
using namespace brim::testing;

namespace {

// Images so large that evaluating the whole batch takes more than training with one of them.
const LosingCase kCase{.batch_norm = true, .evaluated = true, .averaged = true, .size = 16};

/// A training whose last evaluation is disturbed: `begins` is called when the steps before it are
/// done, `during` in each of its forwards.
struct Evaluating {
  explicit Evaluating(const std::string& planner, Checkpoints* checkpoints = nullptr)
      : account(memory::capped_host_account("direct", whole_batch_bytes(kCase, planner))),
        scope(account),
        t(kCase),
        trainer(t.model, t.sgd, t.data(), options(planner, checkpoints)) {
    t.model.during = [this] {
      if (during && !t.model.training() && trainer.updates() == kSteps) during();
    };
    trainer.on_step = [this](const StepReport& step) {
      if (step.step != kSteps) return;
      trained = t.values();
      live = account->stats().live;
      if (begins) begins();
    };
    trainer.on_epoch = [this](const EpochReport& epoch) {
      if (epoch.epoch == 2) last = epoch.validation;
    };
  }
  TrainerOptions options(const std::string& planner, Checkpoints* checkpoints) const {
    TrainerOptions options = t.options(planner);
    options.checkpoints = checkpoints;
    return options;
  }
  void check_untouched() const {
    CHECK(t.values() == trained);
    CHECK(!t.ema->in_use());
    CHECK(t.model.training());
    CHECK(account->stats().live == live);
  }

  std::shared_ptr<memory::Account> account;
  memory::AccountScope scope;
  LosingTraining t;
  Trainer trainer;
  std::function<void()> begins, during;
  std::optional<Evaluation> last;
  std::vector<double> trained;  // values when it began
  int64_t live = 0;             // bytes then
};

Evaluation undisturbed() {
  Evaluating calm("arena");
  calm.trainer.run();
  return calm.last.value();
}

// In parts, sums in float32 are rounded in another order.
void check_same(const Evaluation& a, const Evaluation& b) {
  CHECK(a.images == b.images);
  CHECK(a.accuracy == b.accuracy);
  CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-6));
}

}  // namespace

TEST_CASE("an evaluation whose device loses bytes, before it or within, is planned again") {
  const Evaluation expected = undisturbed();
  int64_t ran_out = 0;
  for (const char* planner : kPlanners)
    for (int64_t forward : {-1, 0, 1}) {  // -1: before the first
      CAPTURE(planner);
      CAPTURE(forward);
      Evaluating run(planner);
      int64_t forwards = 0;
      // Some micro-batch fits in 0.6 of it; caching, with its large segments, takes what there is.
      const int64_t left =
          std::min(predicted_bytes(kCase, planner, 1), run.account->cap() * 6 / 10);
      auto lose = [&] { run.account->set_cap(left); };
      if (forward < 0) run.begins = lose;
      run.during = [&] {
        if (forwards++ == forward) lose();
      };
      run.trainer.run();
      check_same(run.last.value(), expected);
      run.check_untouched();
      CHECK(run.account->stats().mismatches == 0);
      CHECK(run.trainer.counts().violations == 0);
      // Lost within, what is reserved already may serve the evaluation to its end.
      if (forward < 0) CHECK(run.account->stats().reserved <= run.account->cap());
      ran_out += run.trainer.counts().out_of_memory;
    }
  CHECK(ran_out > 0);
}

TEST_CASE("where no evaluation fits, a checkpoint is left; bytes come back, and it is evaluated") {
  const Evaluation expected = undisturbed();
  for (const char* planner : kPlanners)
    for (bool resumed : {false, true}) {
      CAPTURE(planner);
      CAPTURE(resumed);
      TempFolder folder;
      Checkpoints checkpoints(folder.path(), {});
      Evaluating run(planner, &checkpoints);
      const int64_t cap = run.account->cap();
      run.begins = [&] { run.account->set_cap(1000); };
      CHECK_THROWS_WITH_AS(run.trainer.run(), doctest::Contains("out of memory: asked cpu for"),
                           memory::OutOfMemory);
      run.check_untouched();
      CHECK(run.trainer.updates() == kSteps);
      REQUIRE(checkpoints.newest().checkpoint);
      CHECK(checkpoints.newest().checkpoint.value().updates == kSteps);
      if (!resumed) {
        run.account->set_cap(cap);
        run.trainer.run();
        check_same(run.last.value(), expected);
        run.check_untouched();
        continue;
      }
      Evaluating other(planner, &checkpoints);
      REQUIRE(other.trainer.resume().checkpoint);
      other.trainer.run();
      check_same(other.last.value(), expected);
      CHECK(other.t.values() == run.trained);
    }
}

TEST_CASE("whatever request of an evaluation is refused, it stops there, and runs again") {
  const Evaluation expected = undisturbed();
  for (const char* planner : kPlanners) {
    CAPTURE(planner);
    TempFolder folder;
    Checkpoints checkpoints(folder.path(), {});
    Evaluating run(planner, &checkpoints);
    run.begins = [&] { run.account->fail_nth(1); };
    int64_t refused = 0;
    auto ends = [&] {
      try {
        run.trainer.run();
        return true;
      } catch (const memory::OutOfMemory& error) {
        CHECK(error.shortage().injected);
        REQUIRE(error.shortage().section);
        CHECK(error.shortage().section->kind == memory::SectionKind::evaluation);
        return false;
      }
    };
    while (!ends()) {
      CAPTURE(refused);
      CHECK(!run.last);
      run.check_untouched();
      CHECK(checkpoints.newest().checkpoint.value().updates == kSteps);
      REQUIRE(++refused < 1000);
      run.account->fail_nth(refused + 1);
    }
    run.account->fail_nth(0);
    check_same(run.last.value(), expected);
    run.check_untouched();
    // Two forwards of six layers that ask for a result each.
    CHECK(refused >= 2 * 6);
  }
}
