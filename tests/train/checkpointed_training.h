// A training whose data follow from the number of the update, with all its bits to compare, and
// folders of its checkpoints: what tests of checkpoints share.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/checkpoint.h"

namespace brim::testing {

struct CheckpointedCase {
  std::string optimizer = "sgd";  // or "plain", sgd without momentum; "adamw"
  bool ema = true;
  uint64_t seed = 3;  // of the first values
};

inline std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                        nn::Module& model) {
  if (name == "adamw") return std::make_unique<optim::AdamW>(model.named_parameters());
  return std::make_unique<optim::Sgd>(model.named_parameters(),
                                      optim::SgdOptions{.momentum = name == "plain" ? 0 : 0.9});
}

/// A training of a model, and all that it changes.
template <class Model = SmallNet>
class CheckpointedTraining {
 public:
  explicit CheckpointedTraining(const CheckpointedCase& c = {}) {
    nn::initialize(model, c.seed);
    optimizer = make_optimizer(c.optimizer, model);
    if (c.ema) ema = std::make_unique<optim::Ema>(model, optim::EmaOptions{.decay = 0.9});
    step = std::make_unique<TrainStep>(model, *optimizer,
                                       TrainStepOptions{.seed = 5, .ema = ema.get()});
  }

  /// The data of an update follow from its number.
  void train(int updates) {
    for (int i = 0; i < updates; ++i) {
      auto seed = static_cast<uint64_t>(step->updates());
      Problem problem = random_problem(4, 6, 4, seed);
      step->run(0.05, [&] { return cross_entropy(model(problem.images), problem.labels); });
    }
  }

  TrainingState state() { return {model, *optimizer, *step, ema.get()}; }

  /// The bits of all values, and the counts.
  std::vector<uint32_t> bits() const {
    std::vector<uint32_t> all;
    auto add = [&](const std::vector<nn::NamedTensor>& tensors) {
      for (float value : values_of(tensors)) all.push_back(std::bit_cast<uint32_t>(value));
    };
    add(model.named_parameters());
    add(model.named_buffers());
    add(optimizer->named_state());
    if (ema) add(ema->named_state());
    for (int64_t count : {step->updates(), optimizer->steps(), ema ? ema->updates() : 0})
      all.push_back(static_cast<uint32_t>(count));
    return all;
  }

  Model model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Ema> ema;
  std::unique_ptr<TrainStep> step;
};

/// For a folder of its own, or the one that `first` holds.
inline CheckpointOptions options_of(int64_t keep = 3, const Checkpoints* first = nullptr) {
  return {.keep = keep,
          .identity = {{"batch", "64"}, {"model", "small"}},
          .lock = first == nullptr ? nullptr : first->lock()};
}

/// But for the lock.
inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename() != ".lock") names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

using Names = std::vector<std::string>;

/// A folder with checkpoints after updates 1 and 2 of a training, and the bits then.
struct TwoCheckpoints {
  TwoCheckpoints() {
    for (auto* bits : {&first, &second}) {
      training.train(1);
      paths.push_back(checkpoints.save(training.state(), {.batch = training.step->updates()}));
      *bits = training.bits();
    }
  }

  /// Checks that the second is passed over for reasons that begin with `start`, and the first
  /// taken.
  void check_passed_over(const std::string& start = "") const {
    CheckpointedTraining other({.seed = 8});
    NewestCheckpoint newest = checkpoints.load_newest(other.state());
    REQUIRE(newest.passed_over.size() == 1);
    CAPTURE(newest.passed_over[0]);
    CHECK(contains(newest.passed_over[0], "'" + paths[1] + "'"));
    CHECK(newest.passed_over[0].starts_with(start));
    REQUIRE(newest.checkpoint);
    CHECK(newest.checkpoint->path == paths[0]);
    CHECK(newest.checkpoint->progress.batch == 1);
    CHECK(other.bits() == first);
  }

  TempFolder folder;
  Checkpoints checkpoints{folder.path(), options_of()};
  CheckpointedTraining<> training;
  Names paths;
  std::vector<uint32_t> first, second;
};

}  // namespace brim::testing
