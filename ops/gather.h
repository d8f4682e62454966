// Elements along an axis, each place choosing its own: PyTorch's `gather`. For whole rows by number
// use `embedding`, for a range `slice`, for the largest `max`.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

/// For x and index of three axes, along axis 1: y[i,j,k] = x[i, index[i,j,k], k]; other ranks and
/// axes (from the end when negative) likewise.
///
/// x of a floating dtype, index int64 of x's rank and, but along the axis, of at most x's sizes; y
/// has the shape of the index. Saves the index. In backward, gradients that meet in one element are
/// added in the order of the index: the same with any number of threads. On the CPU float32 adds in
/// double where the index is longer than 256 along the axis, in scratch of twice the bytes of x; on
/// a GPU always, in registers, and each element of x goes through its line of the index.
///
/// Throws `ShapeError` or `DtypeError` for tensors that do not go together and, on the CPU,
/// `ValueError` for the first index outside [0, size of x along the axis); on a GPU such an index
/// makes NaN.
Tensor gather(Tensor x, int axis, Tensor index, Where where = Where::current());

namespace kernel {
struct GatherAttributes {
  int axis = 0;
};
/// in: x, index; out: y. Contiguous.
inline constexpr Kernel<GatherAttributes> gather{"gather"};
/// in: dy, index; out: dx, every element written. Contiguous.
inline constexpr Kernel<GatherAttributes> gather_backward{"gather_backward"};
}  // namespace kernel

}  // namespace brim
