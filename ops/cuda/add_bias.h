// Adds a row to every row of a matrix on a GPU, in place: the bias of a product or convolution that
// a library has written. A kernel's part, not one of its own: for tensors use `add`.
#pragma once

#include "brim/core/launch.h"

namespace brim::cuda {

/// y[...,i] += bias[i]; both contiguous, of S, which is floating. Halves are rounded once more.
template <class S>
void add_bias(const KernelCall& call, const View& bias, const View& y);

}  // namespace brim::cuda
