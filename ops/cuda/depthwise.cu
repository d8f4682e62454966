#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/depthwise.h"
#include "brim/ops/cuda/depthwise_window.cuh"
#include "brim/ops/cuda/pixel.cuh"

namespace brim::cuda {
namespace {

/// A convolution with a fast path, or the data gradient of one with stride 1, which is the
/// convolution of dy with the window turned round, and with the padding that is left of it.
template <class S>
struct Sweep {
  int64_t in_h, in_w, out_h, out_w, channels;
  int64_t top, left;  // padding; in the gradient perhaps negative
  const S* weight;    // [tap][channel]
  const S *x, *bias;  // bias may be null
  S* y;
};

enum class Window { as_it_is, turned };

/// Weights for all channels of a tap side by side: [channel][tap] as the op has them would be read
/// one by one.
template <class S>
struct ByTap {
  Window window;
  int64_t channels, taps;
  const S* weight;
  S* to;

  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t tap = at.of[0] / channels, c = at.of[0] % channels;
    to[at.of[0]] = weight[c * taps + (window == Window::turned ? taps - 1 - tap : tap)];
  }
};

template <class S>
S* take_by_tap(ScratchCursor& cursor, const ConvShape& shape) {
  return cursor.take<S>(shape.r * shape.s * shape.c);
}

template <class S>
const S* lay_by_tap(const KernelCall& call, const ConvShape& shape, const View& weight,
                    Window window, const char* kernel) {
  ScratchCursor cursor(call.scratch);
  S* to = take_by_tap<S>(cursor, shape);
  const int64_t taps = shape.r * shape.s;
  for_each_element(call, taps * shape.c, ByTap<S>{window, shape.c, taps, weight.as<S>(), to},
                   kernel);
  return to;
}

/// What a thread adds up, for each of its channels.
template <class P>
struct Sums {
  using S = typename P::Element;
  Compute<S> of[P::kCount];

  /// From the bias, or 0 where that is null. `c`: the first channel.
  __device__ static Sums start(const S* bias, int64_t c) {
    Sums sums;
    BRIM_UNROLL
    for (int k = 0; k < P::kCount; ++k) sums.of[k] = bias != nullptr ? widen(bias[c + k]) : 0;
    return sums;
  }
  __device__ void add(const P& x, const P& weight) {
    BRIM_UNROLL
    for (int k = 0; k < P::kCount; ++k) of[k] = fma(widen(x.of[k]), widen(weight.of[k]), of[k]);
  }
  __device__ void store(S* to) const {
    P made;
    BRIM_UNROLL
    for (int k = 0; k < P::kCount; ++k) made.of[k] = round_to<S>(of[k]);
    made.store(to);
  }
};

/// Element: the channels P of a strip.
template <class P, int kWindow, int kStride>
struct SweepStrip {
  using S = typename P::Element;
  static constexpr int kOutputs = kStrip<P, kWindow, kStride>;
  Sweep<S> by;
  int64_t strips;

  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel to(at.of[0], by.out_h, strips, by.channels / P::kCount);
    const int64_t c = to.c * P::kCount;
    Sums<P> sums[kOutputs];
    for (Sums<P>& sum : sums) sum = Sums<P>::start(by.bias, c);
    for (int r = 0; r < kWindow; ++r) {
      const int64_t h = to.h * kStride - by.top + r;
      if (h >= 0 && h < by.in_h) add_row(to, c, h, r, sums);
    }
    const int64_t w = to.w * kOutputs;
    S* y = by.y + ((to.n * by.out_h + to.h) * by.out_w + w) * by.channels + c;
    BRIM_UNROLL
    for (int j = 0; j < kOutputs; ++j)
      if (w + j < by.out_w) sums[j].store(y + j * by.channels);
  }

 private:
  /// Row h of x under row r of the window.
  __device__ void add_row(const Pixel& to, int64_t c, int64_t h, int r,
                          Sums<P> (&sums)[kOutputs]) const {
    P line[kStretch<P, kWindow, kStride>];
    load_line(by.x + (to.n * by.in_h + h) * by.in_w * by.channels + c,
              to.w * kOutputs * kStride - by.left, by.in_w, by.channels, line);
    BRIM_UNROLL
    for (int s = 0; s < kWindow; ++s) {
      const auto weight = P::load_whole(by.weight + (r * kWindow + s) * by.channels + c);
      BRIM_UNROLL
      for (int j = 0; j < kOutputs; ++j) sums[j].add(line[j * kStride + s], weight);
    }
  }
};

template <class S, int kWindow, int kStride>
void sweep(const KernelCall& call, int64_t images, const Sweep<S>& by) {
  choose_channels<S>(by.channels, {by.x, by.y}, [&]<class P>() {
    const int64_t strips = strips_of<P, kWindow, kStride>(by.out_w);
    for_each_element(call, images * by.out_h * strips * (by.channels / P::kCount),
                     SweepStrip<P, kWindow, kStride>{by, strips}, "depthwise");
  });
}

/// Any window, one thread the channels P of a pixel.
template <class P>
struct AnyWindow {
  using S = typename P::Element;
  ConvShape shape;
  const S* weight;  // [tap][channel]
  const S *x, *bias;
  S* y;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel to(at.of[0], shape.p, shape.q, shape.c / P::kCount);
    const int64_t c = to.c * P::kCount;
    auto sums = Sums<P>::start(bias, c);
    for (int64_t r = 0; r < shape.r; ++r) {
      const int64_t h = to.h * shape.stride.h - shape.padding.h + r * shape.dilation.h;
      if (h < 0 || h >= shape.h) continue;
      for (int64_t s = 0; s < shape.s; ++s) {
        const int64_t w = to.w * shape.stride.w - shape.padding.w + s * shape.dilation.w;
        if (w < 0 || w >= shape.w) continue;
        sums.add(P::load_whole(x + ((to.n * shape.h + h) * shape.w + w) * shape.c + c),
                 P::load_whole(weight + (r * shape.s + s) * shape.c + c));
      }
    }
    sums.store(y + at.of[0] * P::kCount);
  }
};

/// The data gradient: each input collects from the outputs that read it, tap by tap. kWindow and
/// kStride are 0 where they are the shape's.
template <class P, int kWindow, int kStride>
struct Collect {
  using S = typename P::Element;
  ConvShape shape;
  const S* weight;  // [tap][channel]
  const S *dy, *bias;
  S* dx;

  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel to(at.of[0], shape.h, shape.w, shape.c / P::kCount);
    const int64_t rows = kWindow > 0 ? kWindow : shape.r, columns = kWindow > 0 ? kWindow : shape.s;
    const int64_t c = to.c * P::kCount;
    auto sums = Sums<P>::start(bias, c);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t p =
          reader(to.h + shape.padding.h, r, shape.stride.h, shape.dilation.h, shape.p);
      if (p < 0) continue;
      for (int64_t s = 0; s < columns; ++s) {
        const int64_t q =
            reader(to.w + shape.padding.w, s, shape.stride.w, shape.dilation.w, shape.q);
        if (q < 0) continue;
        sums.add(P::load_whole(dy + ((to.n * shape.p + p) * shape.q + q) * shape.c + c),
                 P::load_whole(weight + (r * columns + s) * shape.c + c));
      }
    }
    sums.store(dx + at.of[0] * P::kCount);
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

template <class S, int kWindow, int kStride>
void collect(const KernelCall& call, const ConvShape& shape, const View& dy, const S* weight,
             const View& bias, const View& dx) {
  choose_channels<S>(shape.c, {dy.as<S>(), dx.as<S>()}, [&]<class P>() {
    for_each_element(
        call, dx.numel() / P::kCount,
        Collect<P, kWindow, kStride>{shape, weight, dy.as<S>(), bias.as<S>(), dx.as<S>()},
        "depthwise_backward_data");
  });
}

}  // namespace

template <class S>
int64_t depthwise_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  take_by_tap<S>(cursor, shape);
  return cursor.used();
}

template <class S>
void depthwise(const KernelCall& call, const ConvShape& shape, const View& x, const View& weight,
               const View& bias, const View& y) {
  const S* by_tap = lay_by_tap<S>(call, shape, weight, Window::as_it_is, "depthwise");
  choose_window(
      shape,
      [&]<int kWindow, int kStride>() {
        sweep<S, kWindow, kStride>(call, shape.n,
                                   {.in_h = shape.h,
                                    .in_w = shape.w,
                                    .out_h = shape.p,
                                    .out_w = shape.q,
                                    .channels = shape.c,
                                    .top = shape.padding.h,
                                    .left = shape.padding.w,
                                    .weight = by_tap,
                                    .x = x.as<S>(),
                                    .bias = bias.as<S>(),
                                    .y = y.as<S>()});
      },
      [&] {
        choose_channels<S>(shape.c, {x.as<S>(), y.as<S>()}, [&]<class P>() {
          for_each_element(call, y.numel() / P::kCount,
                           AnyWindow<P>{shape, by_tap, x.as<S>(), bias.as<S>(), y.as<S>()},
                           "depthwise");
        });
      });
}

template <class S>
void depthwise_backward_data(const KernelCall& call, const ConvShape& shape, const View& dy,
                             const View& weight, const View& bias, const View& dx) {
  const auto laid = [&](Window window) {
    return lay_by_tap<S>(call, shape, weight, window, "depthwise_backward_data");
  };
  choose_window(
      shape,
      [&]<int kWindow, int kStride>() {
        if constexpr (kStride == 1)
          sweep<S, kWindow, 1>(call, shape.n,
                               {.in_h = shape.p,
                                .in_w = shape.q,
                                .out_h = shape.h,
                                .out_w = shape.w,
                                .channels = shape.c,
                                .top = kWindow - 1 - shape.padding.h,
                                .left = kWindow - 1 - shape.padding.w,
                                .weight = laid(Window::turned),
                                .x = dy.as<S>(),
                                .bias = bias.as<S>(),
                                .y = dx.as<S>()});
        else
          collect<S, kWindow, kStride>(call, shape, dy, laid(Window::as_it_is), bias, dx);
      },
      [&] { collect<S, 0, 0>(call, shape, dy, laid(Window::as_it_is), bias, dx); });
}

#define BRIM_INSTANTIATE(S)                                                                  \
  template int64_t depthwise_scratch<S>(const ConvShape&);                                   \
  template void depthwise<S>(const KernelCall&, const ConvShape&, const View&, const View&,  \
                             const View&, const View&);                                      \
  template void depthwise_backward_data<S>(const KernelCall&, const ConvShape&, const View&, \
                                           const View&, const View&, const View&);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
BRIM_INSTANTIATE(Float16)
BRIM_INSTANTIATE(BFloat16)
#undef BRIM_INSTANTIATE

}  // namespace brim::cuda
