// Gradients against numerical differences, in float64: one of the checks of checker.cc. Up to 600
// elements every one is checked by `gradcheck`; beyond, four random directions an input, because
// two forwards for each element would take too long. For a function without an `OpSample` call
// `gradcheck` (autograd/gradcheck.h).
#pragma once

#include <string>

#include "brim/tests/support/execution.h"

namespace brim::testing {

/// What is wrong with the gradients in `run`, or "": element by element for small samples, along
/// random directions for large ones. `run` is the sample's execution at the float64 `inputs`.
std::string difference_fault(const OpSample& sample, const Tensors& inputs, const Execution& run);

}  // namespace brim::testing
