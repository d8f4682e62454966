// How `train` is interrupted and goes on: `--checkpoint DIR --keep N --checkpoint-every N
// --resume`. In a program of your own make `Checkpoints` and hand them to `Trainer`
// (train/checkpoint.h).
#pragma once

#include <optional>

#include "brim/examples/support/stop_signal.h"
#include "brim/examples/support/train_data.h"
#include "brim/examples/support/train_flags.h"
#include "brim/train/checkpoint.h"

namespace CLI {
class App;
}

namespace brim::examples {

/// Declares the flags; `flags` must outlive the parsing.
void add_checkpoint_flags(CLI::App& app, TrainFlags& flags);

/// The plan in the checkpoint from which the flags ask to go on; "" where there is none, or
/// `--plan` says what to take. Throws what `newest_checkpoint_in` throws.
std::string kept_plan(const TrainFlags& flags);

/// The checkpoints of a run, if it has any, and the wish to stop.
class RunCheckpoints {
 public:
  /// Before training. Throws `FileError` for a folder that cannot be written, or
  /// that has checkpoints where nobody asked to go on from them; `ValueError` for flags that are of
  /// no use without a folder.
  RunCheckpoints(const TrainFlags& flags, const TrainData& data);

  /// Null for none.
  Checkpoints* folder() { return checkpoints_ ? &*checkpoints_ : nullptr; }
  /// Brings the trainer to the newest checkpoint where the flags ask for it, and says from which.
  std::string resume(Trainer& trainer);
  /// For the checkpoints from now on.
  void note_micro_batch(int64_t images);
  void note_written(const std::string& path) { newest_ = path; }
  bool stop_requested() const { return signal_ && signal_->requested(); }
  /// For who stopped the run: where it stands, and how to go on.
  std::string stopped_message(const Trainer& trainer) const;

 private:
  const TrainFlags& flags_;
  std::optional<Checkpoints> checkpoints_;
  std::optional<StopSignal> signal_;
  std::string newest_;  // that this run wrote
  bool knows_files_ = false;
};

}  // namespace brim::examples
