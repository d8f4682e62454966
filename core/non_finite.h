// Does a tensor hold NaN or an infinity? Reads all of it: for what comes from outside, and for
// looking where a training went wrong (train/non_finite.h says in which op).
#pragma once

#include "brim/core/tensor.h"

namespace brim {

/// False for an undefined tensor, one on the meta device, and dtypes that are not floating. Of any
/// strides. Takes no bytes from the account in force.
bool has_non_finite(const Tensor& tensor);

}  // namespace brim
