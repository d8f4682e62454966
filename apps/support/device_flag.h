// The `--device` of programs that compute: the CPU or a GPU that is here. That of `plan` is in
// planned_device.h. A program of your own calls `parse_device` (base/device.h).
#pragma once

#include <string>

#include "brim/base/device.h"

namespace brim::apps {

/// The device called `name`. Throws `DeviceError` for a name that is none, for "meta", which
/// computes nothing, and for a GPU that is not here, saying what it cannot do there ("train") and
/// why.
Device device_for(const std::string& name, const char* purpose);

}  // namespace brim::apps
