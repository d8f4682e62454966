// Proves that a training which goes on from a checkpoint runs under the plan that it ran under
// before, micro-batch included, without a rehearsal; and that one whose plan is damaged, of another
// training or for other memory is planned anew, says why, and computes the same bits.
#include "brim/train/kept_plan.h"

#include <doctest/doctest.h>

#include "brim/base/parallel.h"
#include "brim/memory/plan/plan_json.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/plain_net.h"
#include "brim/train/checkpoint.h"
#include "brim/train/ladder.h"
#include "brim/train/live_rehearsal.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int64_t kImages = 12;  // of an update
constexpr int64_t kSteps = 8;

// Counts what is rehearsed.
struct CountedNet final : nn::Module {
  CountedNet() { register_modules({{"body", body}}); }
  Tensor forward(Tensor x) override {
    rehearsed += x.device().is_meta();
    return body(std::move(x));
  }
  PlainNet body;
  int64_t rehearsed = 0;
};

struct Training {
  CountedNet model;
  optim::Sgd sgd{model.named_parameters(), {.momentum = 0.9}};
  RandomBatches source{{.images = kImages, .batches = 5}};
};

TrainerOptions options_for(Checkpoints* checkpoints = nullptr) {
  return {.steps = kSteps,
          .seed = 4,
          .schedule = optim::ConstantSchedule{.rate = 0.1},
          .input = {.dtype = Dtype::float64},
          .planner = "arena",
          .checkpoints = checkpoints};
}

int64_t needed(int64_t micro_batch) {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  Training t;
  TrainerOptions options = options_for();
  return predicted_memory({rehearsal_of(t.model, t.sgd, {t.source}, options, micro_batch)})
      .peak_reserved;
}

struct Run {
  std::vector<double> losses;
  std::vector<ReplanReport> plans;
  std::shared_ptr<const memory::Plan> plan;  // in force at the end
  int64_t rehearsed = 0, replans = 0, mismatches = 0, micro_batch = 0;
};

struct Asked {
  int64_t capacity = 0, stop_after = kSteps, micro_batch = 0;
  int64_t lost_after = kSteps, left = 0;  // then the device has so many bytes
};

/// Goes on from the newest checkpoint, if there is one.
Run train(Checkpoints& checkpoints, const Asked& asked) {
  Run run;
  auto account = memory::capped_host_account("direct", asked.capacity);
  account->set_checking(true);
  memory::AccountScope scope(account);
  Training t;
  TrainerOptions options = options_for(&checkpoints);
  options.micro_batch = asked.micro_batch;
  Trainer trainer(t.model, t.sgd, {t.source}, options);
  trainer.on_step = [&](const StepReport& step) {
    run.losses.push_back(step.loss);
    if (step.step == asked.lost_after) account->set_cap(asked.left);
  };
  trainer.on_replan = [&](const ReplanReport& report) { run.plans.push_back(report); };
  trainer.should_stop = [&] { return trainer.updates() == asked.stop_after; };
  trainer.resume();
  trainer.run();
  run.plan = account->plan();
  run.rehearsed = t.model.rehearsed;
  run.replans = trainer.counts().replans;
  run.mismatches = account->stats().mismatches;
  run.micro_batch = trainer.micro_batch();
  return run;
}

/// A training that was stopped after three updates in micro-batches of half an update.
struct Stopped {
  Stopped() { first = train(checkpoints, asked(3)); }
  Asked asked(int64_t stop_after = kSteps) const {
    return {.capacity = capacity, .stop_after = stop_after};
  }
  std::string path() const { return checkpoints.files().front(); }

  /// Writes the checkpoint again with another text of the plan, all else as it was.
  void set_plan(const std::function<void(std::string& plan)>& change) const {
    const std::string path = this->path();
    std::vector<io::NamedBytes> tensors;
    io::Metadata metadata;
    {
      io::SafetensorsFile file(path);
      metadata = file.metadata();
      for (const io::TensorInfo& info : file.tensors())
        tensors.push_back({info.name, file.read(info.name)});
    }
    change(metadata.at("checkpoint.plan"));
    io::write_safetensors(path, tensors, metadata);
  }

  /// Checks that a run is planned anew for a reason with `part` in it, and goes on as if calm.
  void check_planned_anew(const Asked& asked, const std::string& part) {
    const Run run = train(checkpoints, asked);
    REQUIRE(run.plans.size() == 1);
    CAPTURE(run.plans[0].why);
    CHECK(contains(run.plans[0].why, part));
    CHECK(std::ranges::count(run.plans[0].why, '\n') == 0);
    CHECK(!run.plans[0].kept);
    CHECK(run.plans[0].step == 3);
    CHECK(run.replans == 1);
    CHECK(run.rehearsed > 0);
    CHECK(run.mismatches == 0);
    REQUIRE(run.losses.size() == kSteps - 3);
    if (run.micro_batch == first.micro_batch)
      CHECK(run.losses == std::vector(calm().begin() + 3, calm().end()));
  }

  const std::vector<double>& calm() {
    if (calm_.empty()) {
      TempFolder other;
      Checkpoints none(other.path(), {});
      calm_ = train(none, asked()).losses;
    }
    return calm_;
  }

  TempFolder folder;
  Checkpoints checkpoints{folder.path(), {}};
  int64_t capacity = needed(kImages / 2);
  Run first;

 private:
  std::vector<double> calm_;
};

}  // namespace

TEST_CASE("a training goes on under the plan that it had, and rehearses nothing") {
  Stopped stopped;
  CHECK(stopped.first.micro_batch == kImages / 2);
  CHECK(stopped.first.rehearsed > 0);
  CHECK(!stopped.first.plans[0].kept);
  const Run run = train(stopped.checkpoints, stopped.asked());
  CHECK(run.rehearsed == 0);
  CHECK(run.replans == 0);
  CHECK(run.mismatches == 0);
  REQUIRE(run.plans.size() == 1);
  CHECK(run.plans[0].kept);
  CHECK(run.plans[0].step == 3);
  CHECK(run.plans[0].micro_batch == kImages / 2);
  CHECK(run.plans[0].micro_batches == 2);
  CHECK(run.plans[0].capacity == stopped.capacity);
  CHECK(run.plans[0].predicted.peak_reserved == stopped.first.plans[0].predicted.peak_reserved);
  CHECK(run.plans[0].predicted.peak_live == stopped.first.plans[0].predicted.peak_live);
  CHECK(*run.plan == *stopped.first.plan);
  CHECK(run.losses == std::vector(stopped.calm().begin() + 3, stopped.calm().end()));
}

TEST_CASE("the plan that is kept is the one in force, also after the device lost bytes") {
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), {});
  const int64_t all = needed(kImages), less = needed(kImages / 3);
  const Run before =
      train(checkpoints, {.capacity = all, .stop_after = 4, .lost_after = 2, .left = less});
  REQUIRE(before.plans.size() == 2);
  REQUIRE(before.micro_batch == kImages / 3);
  SUBCASE("with as few bytes it goes on so") {
    const Run run = train(checkpoints, {.capacity = less});
    CHECK(run.rehearsed == 0);
    CHECK(run.micro_batch == kImages / 3);
    CHECK(*run.plan == *before.plan);
    CHECK(run.losses.size() == kSteps - 4);
  }
  SUBCASE("with the bytes that it had at first it is planned for these") {
    const Run run = train(checkpoints, {.capacity = all});
    CHECK(run.rehearsed > 0);
    CHECK(run.micro_batch == kImages);
  }
}

TEST_CASE("a plan that cannot be taken is made anew, and the reason told") {
  Stopped stopped;
  SUBCASE("a changed number") {
    stopped.set_plan([](std::string& plan) { plan[plan.find_last_of("0123456789")] ^= 1; });
    stopped.check_planned_anew(stopped.asked(), "the plan of the checkpoint is damaged");
  }
  SUBCASE("cut short") {
    stopped.set_plan([](std::string& plan) { plan.resize(plan.size() / 2); });
    stopped.check_planned_anew(stopped.asked(), "is damaged: its checksum is ");
  }
  SUBCASE("nothing like a plan") {
    stopped.set_plan([](std::string& plan) { plan = "plan"; });
    stopped.check_planned_anew(stopped.asked(), "expected a number and a blank");
  }
  SUBCASE("more memory") {
    Asked asked = stopped.asked();
    asked.capacity += 64;
    stopped.check_planned_anew(asked, fmt::format("({} bytes) now", asked.capacity));
  }
  SUBCASE("less memory") {
    Asked asked = stopped.asked();
    asked.capacity = needed(kImages / 3);
    stopped.check_planned_anew(asked, fmt::format("({} bytes) now", asked.capacity));
  }
  SUBCASE("another micro-batch is asked for") {
    Asked asked = stopped.asked();
    asked.micro_batch = kImages / 4;
    stopped.check_planned_anew(asked, "it answers another question: expected '");
  }
  SUBCASE("another number of threads") {
    const int threads = num_threads();
    set_num_threads(threads + 1);
    const Run run = train(stopped.checkpoints, stopped.asked());
    set_num_threads(threads);
    CHECK(contains(run.plans.at(0).why, fmt::format("{} threads', got", threads + 1)));
    CHECK(run.rehearsed > 0);
  }
}

TEST_CASE("any changed byte of a kept plan is seen") {
  Stopped stopped;
  const std::string text = to_text({stopped.first.plan, 6, 1000});
  const std::string identity = stopped.first.plan->identity;
  auto question = [&](int64_t micro_batch) {
    CHECK(micro_batch == 6);
    return identity;
  };
  const KeptPlan kept = kept_plan_from(text, 1000, question);
  CHECK(*kept.plan == *stopped.first.plan);
  CHECK(kept.micro_batch == 6);
  CHECK(kept.capacity == 1000);
  for (size_t at = 0; at < text.size(); at += at < 64 ? 1 : text.size() / 100) {
    CAPTURE(at);
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK_THROWS_AS(kept_plan_from(changed, 1000, question), FileError);
    CHECK_THROWS_AS(kept_plan_from(text.substr(0, at), 1000, question), FileError);
  }
}

TEST_CASE("under a planner without a plan a checkpoint has none, and nothing is asked of it") {
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), {});
  auto account = memory::capped_host_account("caching");
  memory::AccountScope scope(account);
  Training t;
  TrainerOptions options = options_for(&checkpoints);
  options.planner = "caching";
  Trainer(t.model, t.sgd, {t.source}, options).run();
  CHECK(account->plan() == nullptr);
  CHECK(checkpoints.newest().checkpoint->plan.empty());
}
