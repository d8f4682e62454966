// All of a checkpoint but its tensors, to and from the metadata of its file. Internal to
// train/checkpoint.h. What is read is untrusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "brim/io/checksum.h"
#include "brim/io/safetensors.h"
#include "brim/train/checkpoint.h"

namespace brim {

inline constexpr const char* kCheckpointsTag = "checkpoints";
/// The format's; a reader refuses later ones, of which it cannot know what they mean.
inline constexpr int64_t kCheckpointVersion = 4;

struct CheckpointRecord {
  io::Metadata identity, notes;
  TrainingProgress progress;
  int64_t updates = 0, optimizer_steps = 0;
  std::optional<int64_t> ema_updates = {};  ///< nothing for a training without averages
  /// Of a training with a loss scaler; all or none of them.
  std::optional<double> loss_scale = {};
  std::optional<int64_t> finite_in_a_row = {}, skipped_updates = {};
  uint64_t checksum = 0;  ///< of everything else in the file but the plan, which has its own
  std::string plan;       ///< text of a `KeptPlan`; "" for none
  friend bool operator==(const CheckpointRecord&, const CheckpointRecord&) = default;
};

/// Doubles keep their bits. Throws `ValueError` for a number that `record_of` would refuse.
io::Metadata to_metadata(const CheckpointRecord& record);

/// The version of the format. Throws `FileError` naming `path` for a file that is no checkpoint.
int64_t checkpoint_version(const io::Metadata& metadata, const std::string& path);

/// Throws `FileError` naming `path` for an entry that is missing, unknown or not what it should be.
CheckpointRecord record_of(const io::Metadata& metadata, const std::string& path);

/// The sum of the metadata but its checksum, if it has it already, and the plan: a start for that
/// of the file.
io::Checksum sum_of(const io::Metadata& metadata);

}  // namespace brim
