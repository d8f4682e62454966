// NaN and infinities through an op, for checker.cc: the inputs of a sample with such values at
// places that the sample's name decides, against the sample's own reference, and gradients that
// must not lose what came in. Where a reference cannot say what comes out, the list in
// non_finite.cc says so with the reason. Tests call `check_op` (op_spec.h).
#pragma once

#include <string>
#include <vector>

#include "brim/tests/support/op_spec.h"

namespace brim::testing {

/// One message for each thing that is wrong, for `inputs` in `dtype` on the CPU, which run on
/// `device`:
///  - results are NaN, or the same infinity, where the reference is, and within the allowances
///    elsewhere, with gradients recorded and without;
///  - of one incoming NaN or infinity at an element of the result, every gradient that the element
///    has a part in is NaN, or not finite;
///  - where the float64 op on the CPU gives a NaN for a gradient at inputs with a NaN, so does
///  this.
std::vector<std::string> non_finite_faults(const OpSpec& spec, const OpSample& sample,
                                           const Tensors& inputs, Dtype dtype, Device device,
                                           int ops);

}  // namespace brim::testing
