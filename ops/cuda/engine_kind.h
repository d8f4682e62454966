// What the engines of a GPU's convolutions are of, for who keeps them (train/engine_file.h).
#pragma once

#include <string>

#include "brim/base/device.h"

namespace brim::cuda {

/// What engines are of: the GPU's name and compute capability, and cuDNN's version. Of one that
/// this thread plans for and that is not here, as it is described. "" where there is no GPU, no
/// description, or no cuDNN to choose any.
std::string engine_kind(Device device);

/// What cuDNN knows of a GPU that is here, as it takes others described (base/gpu_description.h):
/// JSON; "" where the GPU is emulated. Throws `DeviceError`.
std::string properties_json(Device device);

}  // namespace brim::cuda
