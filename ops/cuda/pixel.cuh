// Where an element of NHWC images lies, for kernels of one thread an element. For sums over pixels
// see reduce.cuh.
#pragma once

#include <cstdint>

namespace brim::cuda {

/// An element of NHWC images.
struct Pixel {
  int64_t n, h, w, c;
  __device__ Pixel(int64_t i, int64_t height, int64_t width, int64_t channels)
      : n(i / channels / width / height),
        h(i / channels / width % height),
        w(i / channels % width),
        c(i % channels) {}
};

}  // namespace brim::cuda
