// Checkpoints of a training in a folder, from which it goes on as if it had never stopped, bit for
// bit: parameters and buffers, optimizer state, averages, the loss scale, how far it was. No random
// state is saved and none is missing: random numbers follow from the seed, the update and the place
// where they are drawn. For the result of a training, which others load, write its weights
// (nn/weights.h).
//
//   Checkpoints checkpoints("runs/7", {.keep = 3, .identity = {{"model", "resnet18"}, ...}});
//   TrainingState state{model, optimizer, step, &ema};
//   auto [found, passed_over] = checkpoints.load_newest(state);
//   TrainingProgress progress = found ? found->progress : TrainingProgress{};
//   ...
//   checkpoints.save(state, progress);
//
// A checkpoint is a safetensors file, "step-00000123.safetensors" after update 123, those counted
// that were skipped. Its tensors are "model.<name>", "optimizer.<name>" and "ema.<name>", laid out
// as they are in memory, so PyTorch sees convolution weights as [out,R,S,in]. The rest is in its
// metadata, with a checksum of all but the memory plan, which has its own: a training can do
// without it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "brim/io/folder_lock.h"
#include "brim/io/safetensors.h"
#include "brim/nn/module.h"
#include "brim/optim/ema.h"
#include "brim/optim/optimizer.h"
#include "brim/train/train_step.h"

namespace brim {

/// How far a training is, beside the updates that its `TrainStep` counts. Whole numbers
/// are from 0, all others finite.
struct TrainingProgress {
  int64_t epoch = 0;                ///< the one under way, from 0
  int64_t batch = 0;                ///< batches of that epoch that are done
  double loss_sum = 0;              ///< over the images of that epoch so far
  int64_t images = 0;               ///< of that epoch so far
  double seconds = 0;               ///< that the steps of that epoch took so far
  std::optional<double> best = {};  ///< accuracy of the best epoch
  int64_t epochs_since_best = 0;
  std::optional<double> accuracy = {}, top5 = {};  ///< of the last evaluation
  friend bool operator==(const TrainingProgress&, const TrainingProgress&) = default;
};

/// What a checkpoint keeps of a training and gives back, between two updates.
struct TrainingState {
  nn::Module& model;
  optim::Optimizer& optimizer;
  TrainStep& step;
  optim::Ema* ema = nullptr;
  /// Loading makes tensors smaller that are smaller in the checkpoint: for a training that removes
  /// channels. Else another shape is an error.
  bool may_shrink = false;
};

/// A checkpoint that was found, without its tensors.
struct Checkpoint {
  std::string path;
  int64_t updates = 0, skipped = 0;  ///< applied, and skipped for an overflow
  TrainingProgress progress;
  io::Metadata identity, notes;
  /// The memory plan that it was written under (train/kept_plan.h), perhaps damaged though all else
  /// is whole; "" for none.
  std::string plan;
};

struct NewestCheckpoint {
  std::optional<Checkpoint> checkpoint;
  /// What is wrong with newer files, each with its path.
  std::vector<std::string> passed_over;
};

/// The newest checkpoint in a folder that is whole, of whatever training it is: for what must be
/// known before a training can say which it is. Nothing where there is no such folder. Throws as
/// `Checkpoints::newest`.
NewestCheckpoint newest_checkpoint_in(const std::string& folder);

/// Makes a folder for checkpoints where it is missing, and takes its lock: for who wants to know
/// that it is free before `Checkpoints` can be made. Throws `FileError` as that does.
std::shared_ptr<io::FolderLock> lock_checkpoints(const std::string& folder);

struct CheckpointOptions {
  /// Files that stay; from 1. Those that were passed over as damaged stay beside them, uncounted,
  /// and what was not read counts as whole.
  int64_t keep = 3;
  /// What the numbers of the training follow from, by name: model, data, batch, seed, optimizer,
  /// schedule. A checkpoint in which one differs is refused.
  io::Metadata identity = {};
  /// Of these names, those that a checkpoint or this training does not have are not compared: what
  /// older checkpoints did not write down, or nobody asked for.
  std::set<std::string> where_known = {};
  /// Asked about each setting that differs from the checkpoint's, by name: nothing where the
  /// training can go on all the same, else why not, "" for no more than that. Null: it never can.
  std::function<std::optional<std::string>(const Checkpoint& checkpoint, const std::string& name)>
      why_not = {};
  /// The lock on the folder, where it was taken before.
  std::shared_ptr<io::FolderLock> lock = nullptr;
};

/// The folder belongs to one training at a time, which holds a lock on it (io/folder_lock.h). One
/// that begins anew where `files` are left finds its own first ones removed as the oldest.
class Checkpoints {
 public:
  /// Makes the folder where it is missing, takes its lock, and removes what a writer that was
  /// killed left in it. Throws `FileError` for a folder that cannot be made, read or written to,
  /// and for one that another training uses, saying which; `ValueError` for a `keep` below 1 and
  /// for an identity that is no text (`io::check_metadata`).
  Checkpoints(std::string folder, CheckpointOptions options);

  /// What a training that goes on may want to know but may also change, in each checkpoint from now
  /// on: micro-batch, budget. Throws `ValueError` for what is no text.
  void set_notes(io::Metadata notes);

  /// On the folder; never null.
  const std::shared_ptr<io::FolderLock>& lock() const { return options_.lock; }

  /// Paths of the checkpoints that are there, whole or not, the newest first. Throws `FileError`
  /// where the folder cannot be read.
  std::vector<std::string> files() const;

  /// The newest checkpoint that is whole, for what must be known before there is a model: its
  /// notes. Files that are cut short or damaged are passed over; nothing is found where there is no
  /// other. Throws `FileError` naming file and reason where the newest whole one is of a later
  /// version of the format or has another identity, with the first setting that differs;
  /// `memory::OutOfMemory` for a tensor beyond the machine's memory.
  NewestCheckpoint newest() const;

  /// Finds it like `newest` and brings the training there. Throws what `newest` throws; `FileError`
  /// for tensors that are missing, not of this training, or of another shape or dtype; `ValueError`
  /// inside an `EmaScope`; all before any value is changed. Only where the disk fails in a second
  /// reading, a `FileError` leaves the tensors read so far with new values. Takes host memory for
  /// one tensor at a time, which is not charged to the account in force.
  NewestCheckpoint load_newest(const TrainingState& state) const;

  /// Writes a checkpoint, replacing one of the same update, and returns its path. `plan` is what
  /// `Checkpoint::plan` gives back. Once it is on the disk, files beyond those to keep are removed,
  /// the oldest first, this one never. Throws `FileError` where it cannot be written, and then
  /// those before it stay; `ValueError` for a number out of range, parameters without values or
  /// inside an `EmaScope`; `DeviceError` for tensors of the meta device. Takes host memory for one
  /// tensor at a time, where one is not contiguous or on a GPU.
  std::string save(const TrainingState& state, const TrainingProgress& progress,
                   const std::string& plan = "") const;

 private:
  void remove_beyond_keep(const std::string& written) const;

  std::string folder_;
  CheckpointOptions options_;
  io::Metadata notes_;
  mutable std::set<std::string> damaged_;  // files that were passed over
};

}  // namespace brim
