// Comparing tensors, with messages that name the worst element.
#pragma once

#include <string>
#include <vector>

#include "brim/core/tensor.h"

namespace brim::testing {

/// What differs between two tensors: dtype, shape or the first element of other bits; "" when
/// nothing does. Both may be undefined.
std::string bit_difference(const Tensor& got, const Tensor& expected);

/// The element whose error is largest against its allowance, when beyond it: index, got,
/// expected, allowed. "" when all are within. Values that overflow the dtype are expected to be
/// infinite.
std::string worst_error(const Tensor& got, const std::vector<double>& expected,
                        const std::vector<double>& allowed);

}  // namespace brim::testing
