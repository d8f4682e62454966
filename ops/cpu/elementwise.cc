// The CPU's kernels for the list of elementwise functors, in float32 and float64: simple loops that
// the compiler turns into vector code where the formula allows it.

// Nobody reads the flags of floating-point exceptions, so both sides of a choice may be computed:
// ?: becomes a select, the loop vector code, and no value changes. Otherwise activations branch on
// signs, which are random.
#ifndef __clang__
#pragma GCC optimize("no-trapping-math")
#endif

#include <algorithm>
#include <array>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/core/strided_loop.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/elementwise_registrar.h"

namespace brim::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements that repay a second thread

/// out[0] = f(in[0]), contiguous
template <class T, class F>
void unary_kernel(const KernelCall& call, const F& functor) {
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  parallel_for(call.out[0].numel(), kGrain, [=](int64_t begin, int64_t end) {
    const F f = functor;  // a local copy: nothing that is written can change it
    for (int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
  });
}

/// out[0] = f(in[0], in[1]), all of one shape, contiguous
template <class T, class F>
void binary_kernel(const KernelCall& call, const F& functor) {
  const T *a = call.in[0].as<T>(), *b = call.in[1].as<T>();
  T* y = call.out[0].as<T>();
  parallel_for(call.out[0].numel(), kGrain, [=](int64_t begin, int64_t end) {
    const F f = functor;
    for (int64_t i = begin; i < end; ++i) y[i] = f(a[i], b[i]);
  });
}

/// A row of a broadcast operation; steps of 0 and 1 are the ones worth a loop of their own.
template <class T, class F>
void binary_row(T* y, const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t count, F f) {
  if (a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < count; ++i) y[i] = f(a[i], b[i]);
  } else if (a_step == 1 && b_step == 0) {
    for (int64_t i = 0; i < count; ++i) y[i] = f(a[i], *b);
  } else if (a_step == 0 && b_step == 1) {
    for (int64_t i = 0; i < count; ++i) y[i] = f(*a, b[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = f(a[i * a_step], b[i * b_step]);
  }
}

constexpr int64_t kTile = 256;

/// Is `small` one short row (a value per channel, say), repeated behind each other to `full`?
bool repeats_short_row(const View& small, const View& full) {
  int64_t row = full.shape.empty() ? 0 : full.shape.back();
  return row > 1 && row <= kTile / 4 && !small.shape.empty() && small.shape.back() == row &&
         small.numel() == row && small.strides.back() == 1;
}

bool is_row_major(const View& view, const Shape& shape) {
  return view.shape == shape && view.strides == contiguous_strides(shape);
}

/// y[i] = f(x[i], row[i % length]): the row is laid out a few times, so that the loop is long.
template <class T, class F>
void short_row_kernel(const T* x, const T* row, int64_t length, T* y, int64_t count, F f) {
  std::array<T, kTile> tile;
  int64_t period = kTile / length * length;
  for (int64_t i = 0; i < period; ++i) tile[static_cast<size_t>(i)] = row[i % length];
  int64_t tiles = (count + period - 1) / period;
  parallel_for(tiles, kGrain / period, [&](int64_t begin, int64_t end) {
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
void broadcast_kernel(const KernelCall& call, const F& functor) {
  const View &a = call.in[0], &b = call.in[1], &y = call.out[0];
  if (repeats_short_row(b, y) && is_row_major(a, y.shape))
    return short_row_kernel(a.as<T>(), b.as<T>(), b.numel(), y.as<T>(), y.numel(), functor);
  if (repeats_short_row(a, y) && is_row_major(b, y.shape))
    return short_row_kernel(b.as<T>(), a.as<T>(), a.numel(), y.as<T>(), y.numel(),
                            [=](T v, T u) { return functor(u, v); });
  StridedLoop<3> loop(y.shape, {y.strides, broadcast_strides(a.shape, a.strides, y.shape),
                                broadcast_strides(b.shape, b.strides, y.shape)});
  loop.run([&](const Steps<3>& at, int64_t count, const Steps<3>& step) {
    binary_row<T, F>(y.as<T>() + at[0], a.as<T>() + at[1], step[1], b.as<T>() + at[2], step[2],
                     count, functor);
  });
}

struct Kernels {
  static constexpr DeviceType kDevice = DeviceType::cpu;
  static constexpr bool kHalves = false;
  template <class T, class F>
  static constexpr KernelFn<F> unary = unary_kernel<T, F>;
  template <class T, class F>
  static constexpr KernelFn<F> binary = binary_kernel<T, F>;
  template <class T, class F>
  static constexpr KernelFn<F> broadcast = broadcast_kernel<T, F>;
};

}  // namespace

void register_elementwise() { for_each_elementwise_kernel(ElementwiseRegistrar<Kernels>()); }

}  // namespace brim::cpu
