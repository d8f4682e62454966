// All that brim asks of cuBLASLt: matrix products of one dtype, row-major, as brim stores matrices.
// The algorithm is chosen by the sizes, the alignment and a fixed workspace cap alone, once for
// each, and adds in an order that does not change. float32 is computed in float32, and in TF32 only
// where that is allowed (ops/tf32.h). For tensors call `matmul` or `linear`.
#pragma once

#include <cstdint>

#include "brim/base/device.h"
#include "brim/core/dtype.h"

namespace brim::cuda {

/// y [m,n] = a [m,k] b [k,n], or y += a b; `count` of them at even distances. All sizes are above
/// 0. Of float32, float64, or halves, which are multiplied and added in float32.
struct Gemm {
  Dtype dtype = Dtype::float32;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  ///< a is stored [k,m]
  bool transpose_b = false;  ///< b is stored [n,k]
  bool accumulate = false;
  bool bias = false;        ///< halves only: a row is added to every row of y before it is rounded
  bool allow_tf32 = false;  ///< of float32 alone
  int64_t count = 1;
  int64_t distance_a = 0, distance_b = 0, distance_y = 0;  ///< in elements, from one to the next
  int64_t alignment = 64;  ///< of every matrix and of the bias, in bytes

  friend auto operator<=>(const Gemm&, const Gemm&) = default;
};

/// A matrix as BLAS sees it: column by column. A row-major matrix is its own transpose there.
struct ColumnMajor {
  int64_t rows = 0, columns = 0;
  int64_t leading = 0;      ///< elements from one column to the next
  bool transposed = false;  ///< BLAS is to take its transpose

  friend bool operator==(const ColumnMajor&, const ColumnMajor&) = default;
};

/// y = a b in row-major order is y^T = b^T a^T column by column: the operands change places.
struct GemmLayout {
  ColumnMajor left;    ///< where b is
  ColumnMajor right;   ///< where a is
  ColumnMajor result;  ///< where y is

  explicit GemmLayout(const Gemm& gemm);
};

class GemmPlan;

/// The algorithm for these sizes on a GPU: the first that cuBLASLt proposes which adds in one
/// order; of float32 and float64 without one, brim's own (plain_gemm.h). Thread safe. Throws
/// `MissingLibraryError` without cuBLASLt, `UnsupportedError` for halves that it has no such
/// algorithm for, and `DeviceError` where it fails.
const GemmPlan& find_plan(const Gemm& gemm, Device device);

/// Whether `find_plan` has one; throws where it fails.
bool has_plan(const Gemm& gemm, Device device);

/// Bytes, at most `kWorkspaceCap`.
int64_t workspace_bytes(const GemmPlan& plan);

/// What one product is made of.
struct GemmBuffers {
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
  void *y = nullptr, *workspace = nullptr;
};

/// Enqueues the product on `stream`, a cudaStream_t.
void run(const GemmPlan& plan, const GemmBuffers& buffers, void* stream);

}  // namespace brim::cuda
