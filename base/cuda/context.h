// What a GPU holds for a program before there is a tensor: the runtime's context, the code of
// kernels, the handles of libraries (docs/gpu_context.md). It is no account's, but a budget counts
// it: open it before anything is planned, so that it is there already.
#pragma once

#include <cstdint>

#include "brim/base/device.h"

namespace brim::cuda {

struct Context {
  int64_t bytes = 0;
  bool is_measured = false;  ///< false where the driver's NVML is not there to ask
};

/// Opens the context of a GPU, with the libraries that brim calls, once, and measures it: what the
/// GPU has free before and after, which other programs may blur. A library that is missing is left
/// to the op that wants it. Throws `DeviceError` for a GPU that is not here, or has no room for it.
const Context& open_context(Device device);

}  // namespace brim::cuda
