#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/depthwise.h"
#include "brim/ops/cuda/depthwise_window.cuh"
#include "brim/ops/cuda/pixel.cuh"

namespace brim::cuda {
namespace {

/// A convolution with a fast path, or the data gradient of one with stride 1, which is the
/// convolution of dy with the window turned round, and with the padding that is left of it.
template <class T>
struct Sweep {
  int64_t in_h, in_w, out_h, out_w, channels;
  int64_t top, left;  // padding; in the gradient perhaps negative
  bool turned;
  const T *x, *weight, *bias;  // bias may be null
  T* y;
};

/// Element: the channel of a strip.
template <class T, int kWindow, int kStride>
struct SweepStrip {
  Sweep<T> by;
  int64_t strips;

  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel to(at.of[0], by.out_h, strips, by.channels);
    T sums[kStrip];
    for (T& sum : sums) sum = by.bias != nullptr ? by.bias[to.c] : T(0);
    for (int r = 0; r < kWindow; ++r) {
      const int64_t h = to.h * kStride - by.top + r;
      if (h >= 0 && h < by.in_h) add_row(to, h, r, sums);
    }
    T* y = by.y + ((to.n * by.out_h + to.h) * by.out_w + to.w * kStrip) * by.channels + to.c;
    for (int j = 0; j < kStrip; ++j)
      if (to.w * kStrip + j < by.out_w) y[j * by.channels] = sums[j];
  }

 private:
  /// Row h of x under row r of the window.
  __device__ void add_row(const Pixel& to, int64_t h, int r, T (&sums)[kStrip]) const {
    T line[kStretch<kWindow, kStride>];
    load_line(by.x + (to.n * by.in_h + h) * by.in_w * by.channels + to.c,
              to.w * kStrip * kStride - by.left, by.in_w, by.channels, line);
    const T* weight = by.weight + to.c * kWindow * kWindow;
    for (int s = 0; s < kWindow; ++s) {
      const int tap = r * kWindow + s;
      const T value = weight[by.turned ? kWindow * kWindow - 1 - tap : tap];
      for (int j = 0; j < kStrip; ++j) sums[j] = fma(line[j * kStride + s], value, sums[j]);
    }
  }
};

template <class T, int kWindow, int kStride>
void sweep(const KernelCall& call, int64_t images, const Sweep<T>& by) {
  const int64_t strips = strips_of(by.out_w);
  for_each_element(call, images * by.out_h * strips * by.channels,
                   SweepStrip<T, kWindow, kStride>{by, strips}, "depthwise");
}

/// Any window, one thread an element.
template <class T>
struct AnyWindow {
  ConvShape shape;
  const T *x, *weight, *bias;
  T* y;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel to(at.of[0], shape.p, shape.q, shape.c);
    const T* filter = weight + to.c * shape.r * shape.s;
    T sum = bias != nullptr ? bias[to.c] : T(0);
    for (int64_t r = 0; r < shape.r; ++r) {
      const int64_t h = to.h * shape.stride.h - shape.padding.h + r * shape.dilation.h;
      if (h < 0 || h >= shape.h) continue;
      for (int64_t s = 0; s < shape.s; ++s) {
        const int64_t w = to.w * shape.stride.w - shape.padding.w + s * shape.dilation.w;
        if (w < 0 || w >= shape.w) continue;
        sum = fma(x[((to.n * shape.h + h) * shape.w + w) * shape.c + to.c], filter[r * shape.s + s],
                  sum);
      }
    }
    y[at.of[0]] = sum;
  }
};

/// The data gradient: each input collects from the outputs that read it, tap by tap. kWindow and
/// kStride are 0 where they are the shape's.
template <class T, int kWindow, int kStride>
struct Collect {
  ConvShape shape;
  const T *dy, *weight;
  T* dx;

  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel to(at.of[0], shape.h, shape.w, shape.c);
    const int64_t rows = kWindow > 0 ? kWindow : shape.r, columns = kWindow > 0 ? kWindow : shape.s;
    const T* filter = weight + to.c * rows * columns;
    T sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t p =
          reader(to.h + shape.padding.h, r, shape.stride.h, shape.dilation.h, shape.p);
      if (p < 0) continue;
      for (int64_t s = 0; s < columns; ++s) {
        const int64_t q =
            reader(to.w + shape.padding.w, s, shape.stride.w, shape.dilation.w, shape.q);
        if (q < 0) continue;
        sum = fma(dy[((to.n * shape.p + p) * shape.q + q) * shape.c + to.c],
                  filter[r * columns + s], sum);
      }
    }
    dx[at.of[0]] = sum;
  }

 private:
  /// Along one axis, of `outputs`: the one that reads the input with that tap; -1 where none does.
  /// `input` is counted from the start of the padding.
  __device__ static int64_t reader(int64_t input, int64_t tap, int64_t stride, int64_t dilation,
                                   int64_t outputs) {
    const int64_t step = kStride > 0 ? kStride : stride;
    const int64_t start = input - tap * (kWindow > 0 ? 1 : dilation);
    if (start < 0 || start % step != 0 || start / step >= outputs) return -1;
    return start / step;
  }
};

template <class T, int kWindow, int kStride>
void collect(const KernelCall& call, const ConvShape& shape, const View& dy, const View& weight,
             const View& dx) {
  for_each_element(call, dx.numel(),
                   Collect<T, kWindow, kStride>{shape, dy.as<T>(), weight.as<T>(), dx.as<T>()},
                   "depthwise_backward_data");
}

}  // namespace

template <class T>
void depthwise(const KernelCall& call, const ConvShape& shape, const View& x, const View& weight,
               const View& bias, const View& y) {
  choose_window(
      shape,
      [&]<int kWindow, int kStride>() {
        sweep<T, kWindow, kStride>(call, shape.n,
                                   {.in_h = shape.h,
                                    .in_w = shape.w,
                                    .out_h = shape.p,
                                    .out_w = shape.q,
                                    .channels = shape.c,
                                    .top = shape.padding.h,
                                    .left = shape.padding.w,
                                    .turned = false,
                                    .x = x.as<T>(),
                                    .weight = weight.as<T>(),
                                    .bias = bias.as<T>(),
                                    .y = y.as<T>()});
      },
      [&] {
        for_each_element(call, y.numel(),
                         AnyWindow<T>{shape, x.as<T>(), weight.as<T>(), bias.as<T>(), y.as<T>()},
                         "depthwise");
      });
}

template <class T>
void depthwise_backward_data(const KernelCall& call, const ConvShape& shape, const View& dy,
                             const View& weight, const View& dx) {
  choose_window(
      shape,
      [&]<int kWindow, int kStride>() {
        if constexpr (kStride == 1)
          sweep<T, kWindow, 1>(call, shape.n,
                               {.in_h = shape.p,
                                .in_w = shape.q,
                                .out_h = shape.h,
                                .out_w = shape.w,
                                .channels = shape.c,
                                .top = kWindow - 1 - shape.padding.h,
                                .left = kWindow - 1 - shape.padding.w,
                                .turned = true,
                                .x = dy.as<T>(),
                                .weight = weight.as<T>(),
                                .bias = nullptr,
                                .y = dx.as<T>()});
        else
          collect<T, kWindow, kStride>(call, shape, dy, weight, dx);
      },
      [&] { collect<T, 0, 0>(call, shape, dy, weight, dx); });
}

#define BRIM_INSTANTIATE(T)                                                                  \
  template void depthwise<T>(const KernelCall&, const ConvShape&, const View&, const View&,  \
                             const View&, const View&);                                      \
  template void depthwise_backward_data<T>(const KernelCall&, const ConvShape&, const View&, \
                                           const View&, const View&);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
#undef BRIM_INSTANTIATE

}  // namespace brim::cuda
