// Gradients against numerical differences, in float64.
#pragma once

#include <string>

#include "brim/tests/support/execution.h"

namespace brim::testing {

/// What is wrong with the gradients in `run`, or "": element by element for small samples, along
/// random directions for large ones. `run` is the sample's execution at the float64 `inputs`.
std::string difference_fault(const OpSample& sample, const Tensors& inputs, const Execution& run);

}  // namespace brim::testing
