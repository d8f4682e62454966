// Elementwise kernels made from the functors that all devices share (ops/functors.h), and the lines
// that enter them into the table for float32 and float64. Unary and binary ones want contiguous
// buffers of one shape, which the op provides; broadcast ones take any strides. Kernels with
// attributes or scratch, such as dropout, have loops of their own.
#pragma once

#include <algorithm>
#include <array>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/core/strided_loop.h"

namespace brim::cpu {

inline constexpr int64_t kElementwiseGrain = 16384;  // elements that repay a second thread

/// out[0] = f(in[0]), contiguous
template <class T, class F>
void unary_kernel(const KernelCall& call, const NoAttributes&) {
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  parallel_for(call.out[0].numel(), kElementwiseGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = F()(x[i]);
  });
}

/// out[0] = f(in[0], in[1]), all of one shape, contiguous
template <class T, class F>
void binary_kernel(const KernelCall& call, const NoAttributes&) {
  const T *a = call.in[0].as<T>(), *b = call.in[1].as<T>();
  T* y = call.out[0].as<T>();
  parallel_for(call.out[0].numel(), kElementwiseGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = F()(a[i], b[i]);
  });
}

/// A row of a broadcast operation; steps of 0 and 1 are the ones worth a loop of their own.
template <class T, class F>
void binary_row(T* y, const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t count) {
  if (a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < count; ++i) y[i] = F()(a[i], b[i]);
  } else if (a_step == 1 && b_step == 0) {
    for (int64_t i = 0; i < count; ++i) y[i] = F()(a[i], *b);
  } else if (a_step == 0 && b_step == 1) {
    for (int64_t i = 0; i < count; ++i) y[i] = F()(*a, b[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = F()(a[i * a_step], b[i * b_step]);
  }
}

inline constexpr int64_t kTile = 256;

/// Is `small` one short row (a value per channel, say), repeated behind each other to `full`?
inline bool repeats_short_row(const View& small, const View& full) {
  int64_t row = full.shape.empty() ? 0 : full.shape.back();
  return row > 1 && row <= kTile / 4 && !small.shape.empty() && small.shape.back() == row &&
         small.numel() == row && small.strides.back() == 1;
}

inline bool is_row_major(const View& view, const Shape& shape) {
  return view.shape == shape && view.strides == contiguous_strides(shape);
}

/// y[i] = f(x[i], row[i % length]): the row is laid out a few times, so that the loop is long.
template <class T, class F>
void short_row_kernel(const T* x, const T* row, int64_t length, T* y, int64_t count, const F& f) {
  std::array<T, kTile> tile;
  int64_t period = kTile / length * length;
  for (int64_t i = 0; i < period; ++i) tile[static_cast<size_t>(i)] = row[i % length];
  int64_t tiles = (count + period - 1) / period;
  parallel_for(tiles, kElementwiseGrain / period, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T *from = x + t * period, *with = tile.data();
      T* to = y + t * period;
      int64_t n = std::min(period, count - t * period);
      for (int64_t i = 0; i < n; ++i) to[i] = f(from[i], with[i]);
    }
  });
}

/// out[0] = f(in[0], in[1]); inputs of any strides broadcast to the contiguous output.
template <class T, class F>
void broadcast_kernel(const KernelCall& call, const NoAttributes&) {
  const View &a = call.in[0], &b = call.in[1], &y = call.out[0];
  if (repeats_short_row(b, y) && is_row_major(a, y.shape))
    return short_row_kernel(a.as<T>(), b.as<T>(), b.numel(), y.as<T>(), y.numel(), F());
  if (repeats_short_row(a, y) && is_row_major(b, y.shape))
    return short_row_kernel(b.as<T>(), a.as<T>(), a.numel(), y.as<T>(), y.numel(),
                            [](T v, T u) { return F()(u, v); });
  StridedLoop<3> loop(y.shape, {y.strides, broadcast_strides(a.shape, a.strides, y.shape),
                                broadcast_strides(b.shape, b.strides, y.shape)});
  loop.run([&](const Steps<3>& at, int64_t count, const Steps<3>& step) {
    binary_row<T, F>(y.as<T>() + at[0], a.as<T>() + at[1], step[1], b.as<T>() + at[2], step[2],
                     count);
  });
}

template <class F>
void register_unary(const Kernel<NoAttributes>& kernel) {
  register_kernel(kernel, DeviceType::cpu, Dtype::float32, unary_kernel<float, F>);
  register_kernel(kernel, DeviceType::cpu, Dtype::float64, unary_kernel<double, F>);
}

template <class F>
void register_binary(const Kernel<NoAttributes>& kernel) {
  register_kernel(kernel, DeviceType::cpu, Dtype::float32, binary_kernel<float, F>);
  register_kernel(kernel, DeviceType::cpu, Dtype::float64, binary_kernel<double, F>);
}

template <class F>
void register_broadcast(const Kernel<NoAttributes>& kernel) {
  register_kernel(kernel, DeviceType::cpu, Dtype::float32, broadcast_kernel<float, F>);
  register_kernel(kernel, DeviceType::cpu, Dtype::float64, broadcast_kernel<double, F>);
}

}  // namespace brim::cpu
