// The loops of pooling over NHWC images on the CPU, with the channels in vectors; which inputs and
// outputs belong together is in ops/pool_taps.h. Pooling of whole images needs no windows:
// global_avg_pool.cc.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/base/parallel.h"
#include "brim/core/shape.h"
#include "brim/ops/cpu/vector.h"
#include "brim/ops/pool_taps.h"

namespace brim::cpu {

/// Calls `body(n, h, w)` for all pixels of `images` of h x w, rows in parallel.
template <class Body>
void for_pixels(int64_t images, int64_t height, int64_t width, int64_t work, const Body& body) {
  int64_t grain = std::max<int64_t>(16384 / std::max<int64_t>(work * width, 1), 1);
  parallel_for(images * height, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t w = 0; w < width; ++w) body(row / height, row % height, w);
  });
}

/// Calls `body(taps, at)` for each output pixel, whose first element is `at`.
template <class Body>
void for_pool_outputs(const PoolShape& shape, const PoolWindow& window, const Body& body) {
  int64_t work = shape.channels * window.kernel.h * window.kernel.w;
  for_pixels(shape.images, shape.out_h, shape.out_w, work, [&](int64_t n, int64_t h, int64_t w) {
    body(pool_taps(shape, window, n, h, w),
         ((n * shape.out_h + h) * shape.out_w + w) * shape.channels);
  });
}

/// Calls `body(covers, at)` for each input pixel.
template <class Body>
void for_pool_inputs(const PoolShape& shape, const PoolWindow& window, const Body& body) {
  for_pixels(shape.images, shape.in_h, shape.in_w, shape.channels,
             [&](int64_t n, int64_t h, int64_t w) {
               body(pool_covers(shape, window, n, h, w),
                    ((n * shape.in_h + h) * shape.in_w + w) * shape.channels);
             });
}

/// Calls `body<V, count>(c)` for all channels: `count` vectors V from channel c stay in registers
/// while a window is walked over; the last few channels come as single numbers.
template <class T, class Body>
inline void for_channel_vectors(int64_t channels, const Body& body) {
  constexpr int kMany = 4, kStep = kLanes<Vector<T>>;
  int64_t c = 0;
  for (; c + kMany * kStep <= channels; c += kMany * kStep)
    body.template operator()<Vector<T>, kMany>(c);
  for (; c + kStep <= channels; c += kStep) body.template operator()<Vector<T>, 1>(c);
  for (; c < channels; ++c) body.template operator()<T, 1>(c);
}

}  // namespace brim::cpu
