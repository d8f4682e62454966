// The engines that cuDNN computes a GPU's convolutions with (ops/engine_table.h), in a file: so
// that the next run computes with the same ones, whatever timing would say by then, and need not
// look for them. The file is of one kind of GPU and one version of cuDNN. One that is damaged, or
// of another kind, is no error: engines are chosen anew, and that is said. The same text goes into
// plans and checkpoints, where a run needs them wherever it goes on.
//
//   take_up_engines(Device::cuda());  // before the first convolution, and before a rehearsal
//   ...
//   keep_engines(Device::cuda());
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "brim/base/device.h"
#include "brim/ops/engine_table.h"
#include "brim/train/calibration.h"

namespace brim {

/// What engines are of: the GPU's name and compute capability, and cuDNN's version. "" for the CPU,
/// and where there is no cuDNN: then there is nothing to keep.
std::string engine_kind(Device device);

/// Two lines, the second what is kept, the first its format, version and checksum.
std::string to_text(const EngineChoices& choices, const std::string& kind);

/// What is in `text`. Throws `FileError` with the reason where it is not the very text that was
/// written, of another version, or of another kind than `kind`. Whether there are such engines only
/// cuDNN knows: the table is asked for each, and refuses.
EngineChoices engine_choices_from(std::string_view text, const std::string& kind);

struct EngineFileOptions {
  std::string folder = cache_folder();  ///< made where it is missing; "": nothing is kept
  std::string kind = {};                ///< "": that of the device
  /// Told in one line why a file is not taken, or cannot be kept. Without one: standard error.
  std::function<void(const std::string&)> say = {};
};

/// "engines_nvidia_h100_80gb_hbm3_9_0_cudnn_91900.json", in the folder.
std::string engine_file(const std::string& kind, const std::string& folder);

/// Offers the table of the GPU what the folder's file has for it.
void take_up_engines(Device gpu, const EngineFileOptions& options = {});

/// Adds to the file what this process found out. What is there stays as it is, also what another
/// process wrote meanwhile: remove the file to have engines chosen again. It is written whole, and
/// where two processes write at once one of them may be lost, for the next run to find out again.
void keep_engines(Device gpu, const EngineFileOptions& options = {});

}  // namespace brim
