// How `train` is interrupted and goes on: `--checkpoint DIR --keep N --checkpoint-every N
// --resume`. In a program of your own make `Checkpoints` and hand them to `Trainer`
// (train/checkpoint.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "brim/apps/support/app.h"
#include "brim/apps/support/stop_signal.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"
#include "brim/train/checkpoint.h"

namespace brim::apps {

/// Declares the flags; `flags` must outlive the parsing.
void add_checkpoint_flags(App& app, TrainFlags& flags);

/// The plan in the checkpoint from which the flags ask to go on; "" where there is none, or
/// `--plan` says what to take. Throws what `newest_checkpoint_in` throws.
std::string kept_plan(const TrainFlags& flags);

/// The lock on the folder of checkpoints, before anything is planned for it; null without one.
/// Throws `FileError` for a folder that cannot be written, or that another run uses, saying which.
std::shared_ptr<io::FolderLock> lock_checkpoints(const TrainFlags& flags);

/// The note of a checkpoint that names the library it was computed with (`library_version`).
inline constexpr const char* kLibraryNote = "library";
/// What to add to the line on going on from a checkpoint with these notes, where it was another
/// library; "" where it was the same, or older checkpoints do not say.
std::string other_library(const io::Metadata& notes);

/// The checkpoints of a run, if it has any.
class RunCheckpoints {
 public:
  /// Before training. Throws `FileError` for a folder that has checkpoints where nobody asked to go
  /// on from them; `ValueError` for flags that are of no use without a folder.
  RunCheckpoints(const TrainFlags& flags, const TrainData& data,
                 std::shared_ptr<io::FolderLock> lock);

  /// Null for none.
  Checkpoints* folder() { return checkpoints_ ? &*checkpoints_ : nullptr; }
  /// Where nothing keeps other runs out; "" else.
  std::string lock_warning() const;
  /// Brings the trainer to the newest checkpoint where the flags ask for it, and says from which.
  std::string resume(Trainer& trainer);
  /// For the checkpoints from now on.
  void note_micro_batch(int64_t images);
  /// Says so where a signal asked for it; "" else.
  std::string note_written(const std::string& path);
  /// Whether a signal asks for a checkpoint.
  bool is_wished_for() const { return checkpoints_ && !StopSignal::checkpoint_wish().empty(); }
  /// For who asks where there is no folder; "" else.
  std::string unheard_wish() const;
  /// For who stopped the run: where it stands, and how to go on.
  std::string stopped_message(const Trainer& trainer) const;
  /// What to add to an error that ended the run: how to go on from what was kept. "" where nothing
  /// was.
  std::string how_to_go_on() const;

 private:
  const TrainFlags& flags_;
  std::optional<Checkpoints> checkpoints_;
  std::string newest_;  // that this run began from, or wrote
  bool knows_files_ = false;
};

}  // namespace brim::apps
