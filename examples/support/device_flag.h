// The `--device` of programs that run on the CPU only: not every op has a kernel for GPUs. A
// program of your own calls `parse_device` (base/device.h).
#pragma once

#include <string>

#include "brim/base/device.h"

namespace brim::examples {

/// The device called `name`. Throws `DeviceError` for a name that is none, for "meta", which
/// computes nothing, and for a GPU, saying what it cannot do there ("train") and why.
Device device_for(const std::string& name, const char* purpose);

}  // namespace brim::examples
