// Proves that a training goes on from a checkpoint with the same bits, and that the newest stay, at
// no cost of the account in force.
#include "brim/train/checkpoint.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>

#include "brim/tests/train/checkpointed_training.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("a training goes on with the same bits") {
  for (const char* optimizer : {"plain", "sgd", "adamw"})
    for (bool ema : {true, false}) {
      CAPTURE(optimizer);
      CAPTURE(ema);
      TempFolder folder;
      Checkpoints checkpoints(folder.path(), options_of());
      CheckpointedTraining whole({.optimizer = optimizer, .ema = ema});
      whole.train(3);
      checkpoints.save(whole.state(), {});
      auto saved = whole.bits();
      whole.train(3);

      CheckpointedTraining resumed({.optimizer = optimizer, .ema = ema, .seed = 8});
      resumed.train(1);
      REQUIRE(resumed.bits() != saved);
      NewestCheckpoint newest = checkpoints.load_newest(resumed.state());
      REQUIRE(newest.checkpoint);
      CHECK(newest.checkpoint->updates == 3);
      CHECK(newest.passed_over.empty());
      CHECK(resumed.bits() == saved);
      CHECK(resumed.step->updates() == 3);
      CHECK(resumed.optimizer->steps() == 3);
      resumed.train(3);
      CHECK(resumed.bits() == whole.bits());
    }
}

TEST_CASE("progress and notes come back exactly, also without a model") {
  using Limits = std::numeric_limits<double>;
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), options_of());
  CheckpointedTraining training;
  const io::Metadata notes{{"budget", "{\"a\": [1]}"}, {"micro-batch", "8"}, {"empty", ""}};
  checkpoints.set_notes(notes);
  for (double value : {0.1, 1.0 / 3, -0.0, 1e300, -2.5, Limits::max(), Limits::denorm_min(),
                       Limits::min(), std::nextafter(1.0, 2.0)}) {
    const TrainingProgress progress{.epoch = 3,
                                    .batch = 7,
                                    .loss_sum = value,
                                    .images = INT64_MAX,
                                    .seconds = value / 3,
                                    .best = value / 7,
                                    .epochs_since_best = 2};
    checkpoints.save(training.state(), progress);
    NewestCheckpoint newest = checkpoints.newest();
    REQUIRE(newest.checkpoint);
    CHECK(newest.checkpoint->progress == progress);
    CHECK(std::signbit(newest.checkpoint->progress.loss_sum) == std::signbit(value));
    CHECK(newest.checkpoint->notes == notes);
    CHECK(newest.checkpoint->path == checkpoints.files().front());
  }
  checkpoints.save(training.state(), {});
  CHECK(!checkpoints.load_newest(training.state()).checkpoint->progress.best);
}

TEST_CASE("an empty folder has nothing, and is made") {
  TempFolder folder;
  Checkpoints checkpoints(folder.path() + "/a/b", options_of());
  CHECK(std::filesystem::is_directory(folder.path() + "/a/b"));
  CheckpointedTraining training;
  auto before = training.bits();
  NewestCheckpoint newest = checkpoints.load_newest(training.state());
  CHECK(!newest.checkpoint);
  CHECK(newest.passed_over.empty());
  CHECK(training.bits() == before);
  CHECK(names_in(folder.path() + "/a/b").empty());
}

TEST_CASE("the newest stay, and nothing else is touched") {
  TempFolder folder;
  const Names others{"notes.txt", "step-1.safetensors", "step-000000001.safetensors",
                     "step-0000000x.safetensors", "step-00000001.safetensors.old"};
  for (const std::string& name : others) folder.write(name, {});
  folder.make_folder("step-00000009.safetensors");
  Checkpoints checkpoints(folder.path(), options_of(/*keep=*/2));
  CheckpointedTraining training;
  for (int64_t updates : {5, 7, 99'999'999, 100'000'000}) {
    training.step->set_updates(updates);
    checkpoints.save(training.state(), {});
  }
  CHECK(checkpoints.files() == Names{folder.path() + "/step-100000000.safetensors",
                                     folder.path() + "/step-99999999.safetensors"});
  CHECK(names_in(folder.path()).size() == others.size() + 1 + 2);
  // Of a training that went back the one just written stays, though it is the oldest.
  training.step->set_updates(6);
  std::string path = checkpoints.save(training.state(), {});
  CHECK(checkpoints.files() == Names{folder.path() + "/step-100000000.safetensors", path});
  // And again, in place of itself.
  checkpoints.save(training.state(), {.epoch = 1});
  CHECK(checkpoints.files().size() == 2);
  Checkpoints one(folder.path(), options_of(/*keep=*/1, &checkpoints));
  one.save(training.state(), {.epoch = 2});
  CHECK(one.files() == Names{path});
  CHECK(one.newest().checkpoint->progress.epoch == 2);
}

TEST_CASE("the account in force is not charged") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), options_of());
  CheckpointedTraining training;
  account->reset_peak();
  const memory::AccountStats before = account->stats();
  checkpoints.save(training.state(), {});
  REQUIRE(checkpoints.load_newest(training.state()).checkpoint);
  CHECK(account->stats().live == before.live);
  CHECK(account->stats().peak_live == before.live);
}
