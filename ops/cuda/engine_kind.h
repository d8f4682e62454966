// What the engines of a GPU's convolutions are of, for who keeps them (train/engine_file.h).
#pragma once

#include <string>

#include "brim/base/device.h"

namespace brim::cuda {

/// What engines are of: the GPU's name and compute capability, and cuDNN's version. "" where there
/// is no cuDNN to choose any.
std::string engine_kind(Device device);

}  // namespace brim::cuda
