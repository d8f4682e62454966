// All that brim asks of oneDNN: float32 convolutions on NHWC activations and KRSC weights.
// Implementations are chosen by shape and number of threads alone, compiled once and kept for the
// life of the program. They work in the caller's scratch and allocate nothing of note themselves.
#pragma once

#include <cstdint>

#include "brim/ops/conv_shape.h"

namespace brim::onednn {

using Pass = ConvPass;

class Convolution;

/// The convolution for these sizes, or null when oneDNN has no implementation that keeps to the
/// scratch it is given. No data is touched: also for the meta device. Thread safe. Throws as `run`
/// when oneDNN fails for another reason than the sizes; nothing is kept then.
const Convolution* find_convolution(const ConvShape& shape, Pass pass, bool with_bias);

/// Bytes of scratch: the library's own, and the weights in the layout that it wants.
int64_t scratch_bytes(const Convolution& convolution);

/// forward: x, weight, bias (or null) -> y. backward_data: dy, weight -> dx.
/// backward_weight: x, dy -> dweight. Throws `memory::OutOfMemory` when oneDNN has no memory,
/// `InternalError` with its status when it fails otherwise.
void run(const Convolution& convolution, const float* first, const float* second, const float* bias,
         float* result, void* scratch);

/// Throws what a failure of the library is to brim, see `run`; `status` is a dnnl_status_t.
[[noreturn]] void raise_failure(int status, const char* what);

/// The implementation's name, such as "jit_1x1:avx2", for benchmarks.
const char* implementation(const Convolution& convolution);

}  // namespace brim::onednn
