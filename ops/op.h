// What every op's source includes: the tape, the kernel table, and a guarantee that the kernels are
// in it. Programs include the header of the op they call instead; ops outside of this tree include
// autograd/op.h and core/launch.h, and register their own kernels.
#pragma once

#include <memory>
#include <utility>

#include "brim/autograd/op.h"
#include "brim/core/launch.h"
#include "brim/ops/register_kernels.h"

namespace brim {

// A program that links any op runs this before main, and so has the whole table.
inline const bool kernels_ready = register_kernels();

/// Tensors on one device and of one dtype, as most ops want them; throws under `tag`.
inline void require_same_kind(const char* tag, const Tensor& a, const Tensor& b) {
  expect<DtypeError>(a.dtype() == b.dtype(), tag, "expected one dtype, got {} and {}", a.dtype(),
                     b.dtype());
  expect<DeviceError>(a.device() == b.device(), tag, "expected one device, got {} and {}",
                      a.device(), b.device());
}

inline void require_floating(const char* tag, const Tensor& x) {
  expect<DtypeError>(is_floating(x.dtype()), tag, "expected a floating dtype, got {}", x.dtype());
}

/// `values`, one for each channel or class of x, in this shape, on x's device and of its dtype;
/// float32 also where that is lower. Throws under `tag`; `what` is their name.
inline void require_values_for(const char* tag, const Tensor& x, const Tensor& values,
                               const Shape& shape, const char* what) {
  expect<ShapeError>(values.shape() == shape, tag, "expected {} of shape {} for input {}, got {}",
                     what, shape, x.shape(), values.shape());
  expect<DeviceError>(values.device() == x.device(), tag, "expected {} on {}, got it on {}", what,
                      x.device(), values.device());
  bool low = is_low_precision(x.dtype());
  expect<DtypeError>(values.dtype() == x.dtype() || (low && values.dtype() == Dtype::float32), tag,
                     "expected {} of {}{}, got {}", what, low ? "float32 or " : "", x.dtype(),
                     values.dtype());
}

}  // namespace brim
