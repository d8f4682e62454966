// The check that an update's kernels exist, made where an optimizer or an average is created: the
// update itself must not throw, so a device without them is refused here. For authors of
// optimizers. Ops need none of it: `launch` throws for them.
#pragma once

#include <string_view>

#include "brim/core/launch.h"

namespace brim::optim {

/// Throws `DeviceError` under `tag` where the table has no kernel of this name for the device and
/// dtype. The meta device stands for the CPU.
void require_kernel(const char* tag, std::string_view kernel, Device device, Dtype dtype);

}  // namespace brim::optim
