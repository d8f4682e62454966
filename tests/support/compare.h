// Comparing tensors, with messages that name an element: `bit_difference` where two runs must agree
// exactly, `worst_error` for a result against numbers in double. The first tells 0 from -0 and, on
// the meta device, sees dtype and shape alone; to the second NaN equals NaN. How large an error may
// be is not decided here: see tolerance.h.
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
