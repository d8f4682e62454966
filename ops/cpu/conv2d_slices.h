// What the kernels of a convolution share, those for halves (conv2d_half.cc) and the others
// (conv2d.cc): sizes, and the weight gradient of a slice of the batch (ops/conv_slices.h), which
// those of float32 give those for halves too.
#pragma once

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/core/half_simd.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/conv_slices.h"

namespace brim::cpu {

// Views in the order of each kernel: see ops/conv2d.h.
inline ConvShape forward_shape(const KernelCall& call, const Conv2dOptions& options) {
  return {call.in[0].shape, call.in[1].shape, call.out[0].shape, options};
}
inline ConvShape data_shape(const KernelCall& call, const Conv2dOptions& options) {
  return {call.out[0].shape, call.in[1].shape, call.in[0].shape, options};
}
inline ConvShape weight_shape(const KernelCall& call, const Conv2dOptions& options) {
  return {call.in[0].shape, call.out[0].shape, call.in[1].shape, options};
}

/// T: float or double. Of all images of `shape`.
template <class T>
int64_t conv2d_slice_scratch(const ConvShape& shape);
template <class T>
void conv2d_slice_gradient(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                           void* scratch);

/// Slices of the images of a batch.
struct ImageSlices {
  ConvShape shape;  ///< of the whole batch
  int64_t images;   ///< of a slice; the last may have fewer

  ImageSlices(const ConvShape& shape, int64_t images)
      : shape(shape), images(std::max<int64_t>(std::min(images, shape.n), 1)) {}

  bool several() const { return shape.n > images; }
  ConvShape slice(int64_t count) const {
    ConvShape one = shape;
    one.n = count;
    return one;
  }
  /// Calls `of_slice` with its shape and whether it is the first; once for no images.
  template <class OfSlice>
  void each(const OfSlice& of_slice) const {
    for (int64_t begin = 0; begin == 0 || begin < shape.n; begin += images)
      of_slice(slice(std::min(images, shape.n - begin)), begin == 0);
  }
  /// Enough for each, of which `of_slice` says what it takes.
  template <class OfSlice>
  int64_t scratch(const OfSlice& of_slice) const {
    const int64_t rest = shape.n % images;
    int64_t most = shape.n >= images ? of_slice(slice(images)) : 0;
    if (rest > 0 || shape.n == 0) most = std::max(most, of_slice(slice(rest)));
    return most;
  }
};

/// A weight gradient is computed from slices of the batch, which are added up.
struct WeightSlices : ImageSlices {
  WeightSlices(const KernelCall& call, const Conv2dOptions& options)
      : WeightSlices(weight_shape(call, options)) {}

 private:
  explicit WeightSlices(const ConvShape& shape) : ImageSlices(shape, images_of_slice(shape)) {}
};

inline int64_t elements_of_x(const ConvShape& shape) {
  return shape.n * shape.h * shape.w * shape.c;
}
inline int64_t elements_of_dy(const ConvShape& shape) { return shape.pixels() * shape.k; }
/// Is there nothing to multiply?
inline bool is_empty(const ConvShape& shape) {
  return elements_of_x(shape) == 0 || elements_of_dy(shape) == 0 || shape.window() == 0;
}

template <class T>
void add_to(T* sum, const T* part, int64_t count) {
  parallel_for(count, 16384, [=](int64_t begin, int64_t end) {
    add_row(sum + begin, part + begin, end - begin);
  });
}

}  // namespace brim::cpu
