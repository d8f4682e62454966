// What cuBLASLt and cuDNN make when they first compute on a GPU, made before anything is planned:
// give it to `open_context` (base/cuda/context.h), which then measures it with the context. What
// they load for sizes that come later is not known before; `context_growth` says what that took.
#pragma once

#include <span>

#include "brim/base/device.h"
#include "brim/core/dtype.h"

namespace brim::cuda {

/// Computes a small product and small convolutions, forward and backward, of each of `dtypes`, in
/// memory that it gives back. Throws `DeviceError` where a library is missing or fails,
/// `AllocationError` for want of memory.
void warm_up(Device device, std::span<const Dtype> dtypes);

}  // namespace brim::cuda
