// The weight gradient of a convolution is summed slice by slice of the batch: the gradient of each
// slice, and then their sum in order. So an input that was dropped for backward need not be made
// again as a whole (autograd/saved_rows.h); and since the slices depend on sizes alone, the bits
// are the same where it is at hand.
#pragma once

#include <algorithm>
#include <utility>

#include "brim/autograd/op.h"
#include "brim/autograd/saved_rows.h"
#include "brim/base/bytes.h"
#include "brim/base/stand_in.h"
#include "brim/core/row_view.h"
#include "brim/ops/conv_shape.h"

namespace brim {

/// Images of one slice; the last may have fewer. A slice of x is some `kBytesOfRows` of float32,
/// which stay in the caches from where they are made to where they are read. It has enough pixels
/// for the sum of weight gradients not to matter beside each of them, for which large weights want
/// more: late layers are few slices, or one (bench/recompute_time_bench.cc).
inline int64_t images_of_slice(const ConvShape& shape) {
  constexpr int64_t kElements = kBytesOfRows / static_cast<int64_t>(sizeof(float));
  constexpr int64_t kLargeWeights = int64_t{1} << 17;
  const int64_t pixels = shape.k * shape.window() > kLargeWeights ? 2048 : 512;
  const int64_t by_size = kElements / std::max<int64_t>(shape.h * shape.w * shape.c, 1);
  const int64_t by_work = ceil_div(pixels, std::max<int64_t>(shape.p * shape.q, 1));
  return std::max({by_size, by_work, int64_t{1}});
}

/// Does a saved tensor `x` or `dy` come by rows? On the CPU, where there are several slices:
/// cuDNN's gradients are of whole batches. Not in halves, where the sum of slices would be rounded
/// to them after each launch (so their kernels need no slices either: ops/cpu/conv2d_half.cc); and
/// not where there are so many that to rehearse them takes longer than a step is worth.
inline bool has_slices(const ConvShape& shape, const autograd::TensorInfo& saved) {
  constexpr int64_t kMostSlices = 256;
  const int64_t slices = ceil_div(shape.n, images_of_slice(shape));
  return !device_meant(saved.device).is_cuda() && !is_low_precision(saved.dtype) && slices > 1 &&
         slices <= kMostSlices;
}

/// Inputs of the kernel: one was saved, the other comes with backward.
enum class WeightGradientInput { x, dy };

/// dweight of this shape. `saved` is the kernel's input `which`, an `autograd::SavedRows` or what
/// gives rows likewise; the `other` is contiguous.
template <class Rows>
void launch_backward_weight(const ConvShape& shape, const Conv2dOptions& options,
                            WeightGradientInput which, const Rows& saved, const Tensor& other,
                            const Tensor& dweight) {
  const int64_t step = saved.is_whole() ? shape.n : images_of_slice(shape);
  int64_t begin = 0;
  do {
    const int64_t end = std::min(begin + step, shape.n);
    Tensor x = contiguous(saved.rows(begin, end)), dy = row_view(other, begin, end);
    if (which == WeightGradientInput::dy) std::swap(x, dy);
    launch(begin == 0 ? kernel::conv2d_backward_weight : kernel::conv2d_backward_weight_add,
           {x, dy}, {dweight}, options);
    begin = end;
  } while (begin < shape.n);
}

}  // namespace brim
