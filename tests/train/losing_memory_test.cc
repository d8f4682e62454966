// A device that loses bytes while a training runs, and gets them back: the training is planned
// again with other micro-batches of the same updates, and learns the same.
#include "brim/tests/train/losing_memory.h"

#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/train/checkpoint.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("fifty times a device loses bytes and gets them back: the losses stay the same") {
  const Outcome calm = train({}, {});
  CHECK(calm.counts.replans == 1);  // when it began
  CHECK(calm.was_whole());
  RandomStream random(RandomKey{11});
  int64_t ran_out = 0, smaller = 0, larger_again = 0;
  for (int i = 0; i < 50; ++i) {
    const Schedule schedule = random_schedule(kPlanners[i % 3], random);
    CAPTURE(schedule.planner);
    CAPTURE(schedule.lost_after);
    CAPTURE(schedule.back_after);
    const Outcome run = train({}, schedule);
    CHECK(largest_difference(run.losses, calm.losses) < 1e-9);
    CHECK(run.counts.violations == 0);
    ran_out += run.counts.out_of_memory;
    smaller += std::ranges::count_if(run.micro_batches, [](int64_t m) { return m < kImages; });
    larger_again += run.micro_batches.back() == kImages && run.counts.replans > 2;
  }
  // The arena asks for nothing more, and so never runs out; the others do.
  CHECK(ran_out > 5);
  CHECK(smaller > 30);
  CHECK(larger_again > 3);
}

TEST_CASE("bytes that come back are used from the next epoch on") {
  // Caching, with segments far larger than this network, fits the whole batch with less.
  for (const char* planner : {"arena", "direct"}) {
    CAPTURE(planner);
    // Epochs have five updates.
    const Outcome run =
        train({}, {.planner = planner, .lost_after = 1, .forwards = 0, .back_after = 3});
    CHECK(run.micro_batches[0] == kImages);
    CHECK(run.micro_batches[2] < kImages);
    CHECK(run.micro_batches[4] < kImages);
    CHECK(run.micro_batches[5] == kImages);
    CHECK(run.counts.replans == 3);
  }
}

TEST_CASE("where nothing fits any more, a checkpoint is left, and the training goes on from it") {
  const Outcome calm = train({}, {});
  for (const char* planner : kPlanners) {
    CAPTURE(planner);
    TempFolder folder;
    Checkpoints checkpoints(folder.path(), {});
    const int64_t capacity = whole_batch_bytes({}, planner);
    std::vector<double> losses;
    auto run = [&](bool loses) {
      auto account = memory::capped_host_account("direct", capacity);
      memory::AccountScope scope(account);
      LosingTraining t({});
      TrainerOptions options = t.options(planner);
      options.checkpoints = &checkpoints;
      Trainer trainer(t.model, t.sgd, t.data(), options);
      trainer.on_step = [&](const StepReport& step) {
        losses.push_back(step.loss);
        if (loses && step.step == 7) account->set_cap(1000);
      };
      trainer.resume();
      trainer.run();
    };
    CHECK_THROWS_WITH_AS(run(true), doctest::Contains("out of memory: asked cpu for"),
                         memory::OutOfMemory);
    CHECK(losses.size() == 7);
    run(false);
    CHECK(losses == calm.losses);
  }
}
