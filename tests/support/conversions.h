// The tensors of a sample in another dtype, on another device, in another layout, for checker.cc.
// Nothing is recorded: where gradients should pass, use `cast` (ops/cast.h). Undefined tensors stay
// undefined, and one that already is of the dtype or on the device is handed on, not copied.
#pragma once

#include <functional>
#include <vector>

#include "brim/tests/support/op_spec.h"
#include "brim/tests/support/tolerance.h"

namespace brim::testing {

/// What input i of a sample becomes when the op is checked in `dtype`: `OpSample::wide` inputs stay
/// float32 where that is a low precision.
Dtype dtype_for(const OpSample& sample, size_t i, Dtype dtype);

/// Floating tensors as dtype(number); others and undefined ones as they are.
Tensors converted(const Tensors& inputs, const std::function<Dtype(size_t)>& dtype);
Tensors in_double(const Tensors& tensors);

Tensors on_device(const Tensors& tensors, Device device);
Tensors changed(const Tensors& tensors, Tensor (*layout)(const Tensor&));

/// Empty for undefined tensors.
std::vector<Values> values_of(const Tensors& tensors);

}  // namespace brim::testing
