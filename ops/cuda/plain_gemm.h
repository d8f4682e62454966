// Products by a plain kernel of brim's own, one thread an element: for those of float32 and float64
// that cuBLASLt has no algorithm for which adds in one order. Slow; gemm.h chooses.
#pragma once

#include "brim/ops/cuda/gemm.h"

namespace brim::cuda {

/// Enqueues `gemm`, without a bias, of T on `stream`, a cudaStream_t. Sums in double, in order.
template <class T>
void plain_gemm(const Gemm& gemm, const GemmBuffers& buffers, void* stream);

}  // namespace brim::cuda
