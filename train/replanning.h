// Plans a training that runs: anew when its device has lost bytes, and again when they came back.
// `Trainer` asks it at the begin of each step; a loop of your own can do the same.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "brim/memory/account.h"
#include "brim/train/live_rehearsal.h"
#include "brim/train/rehearsed_plan.h"
#include "brim/train/remedies.h"

namespace brim {

struct ReplanReport {
  int64_t step = 0;  ///< updates done before it
  std::string why;   ///< "the device lost bytes, and ran out"
  int64_t micro_batch = 0, micro_batches = 0;
  int64_t capacity = 0;  ///< bytes that the device has now
  StepMemory predicted;  ///< of the training, without what others hold of the account
  bool kept = false;     ///< nothing was planned: the plan is that of the checkpoint
};

class Replanning {
 public:
  /// What is handed over must outlive it. `options.micro_batch` is what the training would run with
  /// if it had the bytes; 0 for whole batches.
  Replanning(nn::Module& model, const optim::Optimizer& optimizer, const TrainingData& data,
             const TrainerOptions& options);

  /// Whether more is reserved than the device has by now.
  bool is_beyond() const;
  /// Whether the device has fewer bytes than the last plan was made for, or had when `total` were
  /// all that there was.
  bool has_shrunk(int64_t total = memory::Source::kUnlimited) const;
  /// Whether it has more, and the micro-batches are smaller than wanted.
  bool may_grow(int64_t micro_batch) const;

  /// Throws `ValueError` where the training cannot be planned again: its optimizer cannot be made
  /// again, or the account's planner is none of those that have a name.
  void require_possible() const;
  /// From the next plan on, micro-batches of up to so many images are wanted.
  void want(int64_t micro_batch) { wanted_ = micro_batch; }
  /// Finds the largest micro-batch, up to the wanted one, that fits what the device has now beside
  /// what others hold of it, and moves the training to a planner for it. To be called between
  /// steps. Throws `memory::OutOfMemory` where none fits; nothing has changed then. `planner` is ""
  /// for the account's own kind.
  ReplanReport plan(const std::string& why, const std::string& planner = "");
  /// Moves the training to a planner without a plan, for changes between steps that no plan has;
  /// `plan` comes next, with the name that this returns. Throws `memory::OutOfMemory`.
  std::string suspend();
  /// The arena's plan that is in force, for training with such micro-batches, as text
  /// (kept_plan.h); "" where there is none.
  std::string kept(int64_t micro_batch) const;
  /// Moves the training to a plan that `kept` gave, without a rehearsal. Throws `FileError` with
  /// the reason where it is damaged, of another training, or the device has not the bytes that it
  /// had; nothing has changed then.
  ReplanReport take_up(const std::string& kept);
  /// What training with batches of so many images, in one part each, would hold under the account's
  /// planner, or nothing where the model cannot train with so few.
  std::optional<StepMemory> predict(int64_t batch) const;

 private:
  RehearsalOptions rehearsal(int64_t micro_batch) const;
  std::string identity(int64_t micro_batch) const;
  void move_to(const std::string& planner, int64_t micro_batch);
  [[noreturn]] void refuse(int64_t least_bytes) const;

  nn::Module& model_;
  const optim::Optimizer& optimizer_;
  TrainingData data_;
  TrainerOptions options_;
  std::shared_ptr<memory::Account> account_;
  int64_t wanted_;   // images of a micro-batch
  int64_t planned_;  // the capacity that the training was planned for
};

}  // namespace brim
