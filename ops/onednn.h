// All that brim asks of oneDNN: convolutions on NHWC activations and KRSC weights, in float32, and
// in bfloat16 where the processor has instructions for it; matrix products in bfloat16.
// Implementations are chosen by sizes and number of threads alone, compiled once and kept while
// they are among those used last. They work in the caller's scratch and allocate nothing of note
// themselves.
#pragma once

#include <cstdint>
#include <memory>

#include "brim/core/dtype.h"
#include "brim/ops/conv_shape.h"

namespace brim::onednn {

/// Does this processor multiply bfloat16 (AVX512-BF16, AMX)? Others would take float32's time and
/// that of conversions.
bool has_bfloat16();
/// Does it multiply tiles of bfloat16 (AMX, ops/cpu/amx.h)?
bool has_tiles();

/// A convolution or a product, for certain sizes.
class Primitive;
/// Held by who found it, also when it is no longer among those that are kept.
using PrimitivePtr = std::shared_ptr<const Primitive>;

using Pass = ConvPass;

/// The convolution for these sizes, or null when oneDNN has no implementation that keeps to the
/// scratch it is given. In bfloat16 x, y, weight and bias are; sums, and the weight's gradient, are
/// float32. No data is touched: also for the meta device. Thread safe. Throws as `run` when oneDNN
/// fails for another reason than the sizes; nothing is kept then.
PrimitivePtr find_convolution(const ConvShape& shape, Pass pass, bool with_bias,
                              Dtype dtype = Dtype::float32);

/// What a forward convolution does to its results as it writes them:
/// y = convolution + bias + what y holds, where it `adds`. No activation: oneDNN's relu and clip
/// make 0 of NaN, and a pass of its own costs about 1% of a ResNet-50's inference.
struct Epilogue {
  bool adds = false;
};
/// As `find_convolution`, for inference in float32.
PrimitivePtr find_fused_convolution(const ConvShape& shape, bool with_bias,
                                    const Epilogue& epilogue);

/// y[m,n] = a[m,k] b[k,n] + bias[n], all contiguous.
struct ProductShape {
  int64_t m, n, k;
  bool transpose_a = false;  ///< a is given as [k,m]
  bool transpose_b = false;  ///< b is given as [n,k]
  bool with_bias = false;
};
/// As `find_convolution`, in bfloat16.
PrimitivePtr find_product(const ProductShape& shape);

/// Bytes of scratch: the library's own, and the weights in the layout that it wants.
int64_t scratch_bytes(const Primitive& primitive);

/// A convolution's forward: x, weight, bias (or null) -> y. backward_data: dy, weight -> dx.
/// backward_weight: x, dy -> dweight. A product: a, b, bias (or null) -> y. Throws
/// `memory::OutOfMemory` when oneDNN has no memory, `InternalError` with its status when it fails
/// otherwise.
void run(const Primitive& primitive, const void* first, const void* second, const void* bias,
         void* result, void* scratch);

// Weights that stay the same need be brought into the library's order once.

/// Bytes of the weights in that order; 0 where it is the one that they are stored in.
int64_t packed_bytes(const Primitive& primitive);
/// Do both want their weights in one order?
bool pack_alike(const Primitive& a, const Primitive& b);
/// `scratch`: as many bytes as `scratch_bytes` says.
void pack(const Primitive& primitive, const void* weight, void* packed, void* scratch);
/// Of scratch, where the weights are packed.
int64_t scratch_bytes_packed(const Primitive& primitive);
/// As `run`, with such weights.
void run_packed(const Primitive& primitive, const void* x, const void* packed, const void* bias,
                void* y, void* scratch);

/// Is it one of the direct kernels for AVX2, which are made for blocked layouts?
bool is_direct_avx2(const Primitive& convolution);
/// And of so many channels that brim's own do better on NHWC (bench/conv_bench.cc)? With few,
/// reading windows dominates. Not asked of the data gradient, where a stride leaves brim's mostly
/// zeros to multiply.
bool is_slow_on_nhwc(const Primitive& convolution, const ConvShape& shape);

/// Throws what a failure of the library is to brim, see `run`; `status` is a dnnl_status_t.
[[noreturn]] void raise_failure(int status, const char* what);

/// The implementation's name, such as "jit_1x1:avx2", for benchmarks.
const char* implementation(const Primitive& primitive);

}  // namespace brim::onednn
