// Proves that whatever ends a training, what was trained since the last checkpoint is written to
// one first, as long as one can go on from it; and that a checkpoint can be had at any time.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/tests/support/errors.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/losing_memory.h"
#include "brim/train/checkpoint.h"

using namespace brim;
using namespace brim::testing;

namespace {

const LosingCase kCase{.batch_norm = true, .evaluated = true};
constexpr int64_t kEpoch = kSteps / 2;  // updates

/// A training with checkpoints, which goes on from the newest.
struct Run {
  explicit Run(Checkpoints& checkpoints, const LosingCase& c = kCase)
      : t(c), trainer(t.model, t.sgd, t.data(), options(checkpoints)) {
    trainer.on_step = [this](const StepReport& step) { losses.push_back(step.loss); };
    trainer.on_epoch = [this](const EpochReport& epoch) {
      bests.push_back(epoch.best);
      accuracies.push_back(epoch.validation->accuracy);
    };
    trainer.on_checkpoint = [this](const std::string&) { written.push_back(trainer.updates()); };
    trainer.resume();
  }
  TrainerOptions options(Checkpoints& checkpoints) {
    TrainerOptions options = t.options("");
    options.checkpoints = &checkpoints;
    return options;
  }

  LosingTraining t;
  Trainer trainer;
  std::vector<double> losses, accuracies;
  std::vector<bool> bests;
  std::vector<int64_t> written;  // updates done by then
};

/// A training that nothing disturbs.
struct Calm {
  Calm() {
    TempFolder folder;
    Checkpoints checkpoints(folder.path(), {});
    Run run(checkpoints);
    run.trainer.run();
    losses = run.losses;
    accuracies = run.accuracies;
    bests = run.bests;
    values = run.t.values();
  }
  std::vector<double> losses, accuracies, values;
  std::vector<bool> bests;
};

struct Folder {
  TempFolder folder;
  Checkpoints checkpoints{folder.path(), {}};
};

/// Fails by `fault`, with a checkpoint after so many updates, and then goes on as if nothing had
/// been.
void check_goes_on(const std::function<void(Run&)>& fault, int64_t updates) {
  CAPTURE(updates);
  const Calm calm;
  Folder f;
  Run first(f.checkpoints);
  fault(first);
  CHECK_THROWS_WITH_AS(first.trainer.run(), "log: full", FileError);
  REQUIRE(f.checkpoints.newest().checkpoint);
  CHECK(f.checkpoints.newest().checkpoint->updates == updates);
  CHECK(first.written.back() == updates);
  Run second(f.checkpoints);
  second.trainer.run();
  auto joined = [](auto a, const auto& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  CHECK(joined(first.losses, second.losses) == calm.losses);
  CHECK(joined(first.accuracies, second.accuracies) == calm.accuracies);
  CHECK(joined(first.bests, second.bests) == calm.bests);
  CHECK(second.t.values() == calm.values);
}

[[noreturn]] void fail() { raise<FileError>("log", "full"); }

}  // namespace

TEST_CASE("an error of a callback leaves a checkpoint, and nothing is lost or done twice") {
  for (int64_t at : {1, 3, 5, 8}) {
    check_goes_on(
        [&](Run& run) {
          run.trainer.on_step = [&run, at](const StepReport& step) {
            run.losses.push_back(step.loss);
            if (step.step == at) fail();
          };
        },
        at);
  }
  check_goes_on([](Run& run) { run.trainer.on_evaluation = [](int64_t, int64_t) { fail(); }; },
                kEpoch);
  check_goes_on([](Run& run) { run.trainer.on_best = [](const EpochReport&) { fail(); }; }, kEpoch);
  check_goes_on(
      [](Run& run) {
        run.trainer.on_epoch = [&run](const EpochReport& epoch) {
          run.bests.push_back(epoch.best);
          run.accuracies.push_back(epoch.validation->accuracy);
          fail();
        };
      },
      kEpoch);
}

TEST_CASE("an error that is none of the library's leaves a checkpoint too") {
  Folder f;
  Run run(f.checkpoints);
  run.trainer.on_step = [](const StepReport& step) {
    if (step.step == 2) throw 7;
  };
  CHECK_THROWS_AS(run.trainer.run(), int);
  CHECK(f.checkpoints.newest().checkpoint.value().updates == 2);
}

TEST_CASE("an error with nothing new since the last checkpoint writes none") {
  Folder f;
  Run run(f.checkpoints);
  run.t.model.during = [&] {
    if (run.trainer.updates() == kEpoch && !run.accuracies.empty()) fail();
  };
  CHECK_THROWS_AS(run.trainer.run(), FileError);
  CHECK(run.written == std::vector<int64_t>{kEpoch});

  Run none(f.checkpoints);
  none.t.model.during = fail;
  CHECK_THROWS_AS(none.trainer.run(), FileError);
  CHECK(none.written.empty());
}

TEST_CASE("weights that are not finite are not what one goes on from") {
  Folder f;
  Run run(f.checkpoints);
  run.trainer.on_step = [&](const StepReport& step) {
    if (step.step != 3) return;
    run.t.model.named_parameters().front().tensor.data<float>()[0] =
        std::numeric_limits<float>::infinity();
    fail();
  };
  CHECK_THROWS_WITH_AS(run.trainer.run(), "log: full", FileError);
  CHECK(f.checkpoints.files().empty());
}

TEST_CASE("where the checkpoint cannot be written either, both errors are told in one line") {
  Folder f;
  Run run(f.checkpoints);
  run.trainer.on_step = [&](const StepReport&) {
    std::filesystem::remove_all(f.folder.path());
    fail();
  };
  const std::string text = error_text<FileError>([&] { run.trainer.run(); });
  CAPTURE(text);
  CHECK(text.starts_with("trainer: log: full; and no checkpoint could be written: "));
  CHECK(contains(text, "step-00000001.safetensors"));
  CHECK(!contains(text, "\n"));
}

TEST_CASE("a checkpoint that is wished for is written, also during an evaluation") {
  for (bool averaged : {false, true}) {
    CAPTURE(averaged);
    Folder f;
    LosingCase c = kCase;
    c.averaged = averaged;
    Run run(f.checkpoints, c);
    bool wished = false;
    std::vector<int64_t> evaluated;  // images, when one was written
    int64_t images = 0;
    run.trainer.should_checkpoint = [&] { return std::exchange(wished, false); };
    run.trainer.on_step = [&](const StepReport& step) { wished |= step.step == 2; };
    run.trainer.on_evaluation = [&](int64_t done, int64_t) {
      images = done;
      wished |= done == kImages && run.trainer.updates() == kEpoch;
    };
    run.trainer.on_epoch = [&](const EpochReport&) { images = 0; };
    run.trainer.on_checkpoint = [&](const std::string&) {
      run.written.push_back(run.trainer.updates());
      evaluated.push_back(images);
    };
    run.trainer.run();
    // After update 2; within the first evaluation, or after it; after each of both.
    CHECK(run.written == (averaged ? std::vector<int64_t>{2, kEpoch, kEpoch + 1, kSteps}
                                   : std::vector<int64_t>{2, kEpoch, kEpoch, kSteps}));
    CHECK(evaluated ==
          (averaged ? std::vector<int64_t>{0, 0, 0, 0} : std::vector<int64_t>{0, kImages, 0, 0}));
  }
}

TEST_CASE("a checkpoint knows the accuracy of the last evaluation") {
  Folder f;
  Run run(f.checkpoints);
  run.trainer.run();
  Run finished(f.checkpoints);
  finished.trainer.run();
  CHECK(finished.losses.empty());
  REQUIRE(finished.trainer.progress().accuracy);
  CHECK(*finished.trainer.progress().accuracy == run.accuracies.back());
  CHECK(finished.trainer.progress().top5 == run.trainer.progress().top5);
}

TEST_CASE("a training whose updates are skipped before an evaluation gives NaN has diverged") {
  // The weights are damaged after so many updates of twelve, and all that follow are skipped.
  auto error_after = [](int64_t damaged) {
    LosingTraining t(kCase);
    RandomBatches source({.images = kImages, .batches = 12, .size = kCase.size});
    optim::LossScaler scaler;
    TrainerOptions options = t.options("");
    options.steps = 12;
    options.scaler = &scaler;
    Trainer trainer(t.model, t.sgd, {source, t.validation.get()}, options);
    trainer.on_step = [&](const StepReport& step) {
      if (step.step == damaged)
        t.model.named_parameters().front().tensor.data<float>()[0] = std::nanf("");
    };
    return error_text<ValueError>([&] { trainer.run(); });
  };
  const std::string diverged = error_after(3), sudden = error_after(4);
  CAPTURE(diverged);
  CAPTURE(sudden);
  CHECK(
      diverged.starts_with("trainer: the training diverged: 9 of the last 10 updates were skipped "
                           "for an overflow, first "
                           "seen in the forward pass of '"));
  CHECK(contains(diverged, "' in module body."));
  CHECK(contains(diverged, "; accuracy: a logit of row 0 is NaN"));
  CHECK(sudden == "accuracy: a logit of row 0 is NaN");
}
