// Forward and data gradient of depthwise convolution.
#include "brim/ops/cpu/depthwise.h"

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/depthwise_statistics.h"
#include "brim/ops/cpu/depthwise_sweep.h"

namespace brim::cpu {
namespace {

/// Room for the weights in blocks.
template <class T>
Compute<T>* take_weights(const ConvShape& shape, ScratchCursor& scratch) {
  return scratch.take<Compute<T>>(shape.r * shape.s * shape.c);
}

/// The weights in blocks of channels; `flip` reverses both R and S.
template <class T>
void reorder_weights(const ConvShape& shape, const T* weight, bool flip, Compute<T>* to) {
  int64_t taps = shape.r * shape.s;
  for (int64_t c = 0; c < shape.c; ++c) {
    ChannelBlock<Compute<T>> block(c, shape.c);
    for (int64_t tap = 0; tap < taps; ++tap)
      to[block.at(c, flip ? taps - 1 - tap : tap, taps)] =
          convert<Compute<T>>(weight[c * taps + tap]);
  }
}

/// Forward.
template <class T>
Sweep<T> sweep_of(const ConvShape& shape, const T* x, const Compute<T>* weights, const T* bias,
                  T* y) {
  return {shape, x, weights, bias, y, shape.h, shape.w, shape.p, shape.q, shape.padding};
}

/// The data gradient under any stride: a sweep over x that reads dy.
template <class T>
struct GradientSweep {
  const ConvShape& shape;
  Sweep<T> sweep;

  Meeting rows_over(int64_t y) const {
    return outputs_over(y, shape.p, shape.r, shape.stride.h, shape.padding.h, shape.dilation.h);
  }

  void pixels(const Plane<T>& in, const Meeting& rows, int64_t begin, int64_t end, T* out) const {
    for (int64_t x = begin; x < end; ++x) {
      Meeting columns =
          outputs_over(x, shape.q, shape.s, shape.stride.w, shape.padding.w, shape.dilation.w);
      one_pixel(in, rows, columns, shape, sweep.weight, sweep.bias, out + x * shape.c);
    }
  }

  void any() const {
    sweep.run([&](const Plane<T>& in, int64_t y, T* out, const auto&) {
      pixels(in, rows_over(y), 0, shape.w, out);
    });
  }

  /// Pairs of columns 2q - padding and 2q - padding + 1 of x, for kWidth successive q: the first
  /// meets the even taps, t of them of output q - t / 2, the second the odd ones. `dy` is at q in
  /// the first of the rows that exist.
  template <int kTaps, int kWidth>
  void pairs(const Plane<T>& in, const T* dy, const Meeting& rows, T* to, bool streaming) const {
    constexpr int kBefore = kTaps / 2;  // outputs left of q
    int64_t channels = in.channels, row_step = rows.at_step * in.width * channels;
    for_lanes_and_halves<Compute<T>>(channels, [&]<class V>(int64_t c) {
      V even[kWidth] = {}, odd[kWidth] = {};
      for (int64_t i = 0; i < rows.count; ++i) {
        const T* row = opaque(dy + i * row_step - kBefore * channels + c);
        const Compute<T>* w =
            sweep.weight + kTaps * kTaps * c + (rows.first + i * rows.step) * kTaps * kLanes<V>;
        V weights[kTaps];
#pragma GCC unroll 8
        for (int t = 0; t < kTaps; ++t) weights[t] = load<V>(w + t * kLanes<V>);
#pragma GCC unroll 16
        for (int j = 0; j < kWidth + kBefore; ++j) {
          const V here = load<V>(row + j * channels);
#pragma GCC unroll 8
          for (int t = 0; t < kTaps; ++t) {
            const int q = j - kBefore + t / 2;
            if (q < 0 || q >= kWidth) continue;
            V& sum = t % 2 == 0 ? even[q] : odd[q];
            sum = fma(weights[t], here, sum);
          }
        }
      }
      if constexpr (is_vector<V>)
        prefetch(dy + in.width * channels + c * kWidth, kWidth * kLanes<V>);
      T* out = opaque(to + c);
#pragma GCC unroll 16
      for (int j = 0; j < kWidth; ++j) {
        if (streaming && is_vector<V>) {
          stream(out + 2 * j * channels, even[j]);
          stream(out + (2 * j + 1) * channels, odd[j]);
        } else {
          store(out + 2 * j * channels, even[j]);
          store(out + (2 * j + 1) * channels, odd[j]);
        }
      }
    });
  }

  /// Successive q, whose pairs are stored side by side: a processor joins the halves of a cache
  /// line on their way past the caches for few lines at a time.
  static constexpr int kMostPairs = kVectorBytes == 64 ? 4 : 2;

  /// Of a stride of 2.
  template <int kTaps>
  void by_pairs() const {
    int64_t padding = shape.padding.w;
    // All outputs from q - kTaps / 2 on exist, and so do both columns.
    int64_t first = std::max<int64_t>(kTaps / 2, (padding + 1) / 2);
    int64_t end = std::max(first, std::min(shape.q, (shape.w + padding) / 2));
    bool streaming = sweep.streams();
    sweep.run([&](const Plane<T>& in, int64_t y, T* out, const auto&) {
      Meeting rows = rows_over(y);
      pixels(in, rows, 0, std::min(shape.w, 2 * first - padding), out);
      for_tiles<kMostPairs>(first, end, [&]<int kWidth>(int64_t q) {
        T* tile = out + (2 * q - padding) * shape.c;
        pairs<kTaps, kWidth>(in, in.at(rows.at, q), rows, tile, streaming);
      });
      pixels(in, rows, std::min(shape.w, 2 * end - padding), shape.w, out);
    });
  }
};

template <class T>
void forward_sweep(const Sweep<T>& sweep) {
  with_window<T>(
      sweep.shape, [&](auto window) { sweep.correlate(window); }, [&] { sweep.correlate(); });
}

}  // namespace

template <class T>
int64_t depthwise_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  take_weights<T>(shape, cursor);
  return cursor.used();
}

template <class T>
void depthwise(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
               void* scratch) {
  ScratchCursor cursor(scratch);
  Compute<T>* blocks = take_weights<T>(shape, cursor);
  reorder_weights(shape, weight, false, blocks);
  forward_sweep(sweep_of(shape, x, blocks, bias, y));
}

bool depthwise_gathers_statistics(const ConvShape& shape) {
  constexpr int64_t kWidest = 256;  // a part is whole rows, and its sums are in float32
  return shape.is_depthwise() && shape.c % kLanes<Vector<float>> == 0 && shape.pixels() > 0 &&
         shape.q <= kWidest;
}

namespace {

/// Forward with statistics, of an input that is normalised on the way or, where `norm` is null,
/// not.
class StatisticsSweep {
 public:
  StatisticsSweep(const ConvShape& shape, const InputNorm* norm, void* scratch)
      : shape_(shape),
        cursor_(scratch),
        blocks_(take_weights<float>(shape, cursor_)),
        moments_(shape, num_threads(), cursor_),
        way_(norm, shape, moments_.threads(), cursor_) {}
  int64_t scratch_bytes() const { return cursor_.used(); }

  void run(const float* x, const float* weight, const float* bias, float* y,
           const BatchStatistics& statistics) const {
    reorder_weights(shape_, weight, false, blocks_);
    Sweep<float> sweep = sweep_of(shape_, x, blocks_, bias, y);
    sweep.moments = &moments_;
    sweep.way = way_;
    forward_sweep(sweep);
    moments_.finish(statistics);
  }

 private:
  const ConvShape& shape_;
  ScratchCursor cursor_;
  float* blocks_;
  RowMoments moments_;
  OnTheWay way_;
};

}  // namespace

int64_t depthwise_with_statistics_scratch(const ConvShape& shape) {
  return StatisticsSweep(shape, nullptr, nullptr).scratch_bytes();
}

void depthwise_with_statistics(const ConvShape& shape, const float* x, const float* weight,
                               const float* bias, float* y, const BatchStatistics& statistics,
                               void* scratch) {
  StatisticsSweep(shape, nullptr, scratch).run(x, weight, bias, y, statistics);
}

int64_t normalized_depthwise_scratch(const ConvShape& shape, const InputNorm& norm) {
  return StatisticsSweep(shape, &norm, nullptr).scratch_bytes();
}

void normalized_depthwise(const ConvShape& shape, const InputNorm& norm, const float* x,
                          const float* weight, const float* bias, float* y,
                          const BatchStatistics& statistics, void* scratch) {
  StatisticsSweep(shape, &norm, scratch).run(x, weight, bias, y, statistics);
}

template <class T>
void depthwise_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                             void* scratch) {
  ScratchCursor cursor(scratch);
  Compute<T>* blocks = take_weights<T>(shape, cursor);
  const Pair padding{shape.r - 1 - shape.padding.h, shape.s - 1 - shape.padding.w};
  const Sweep<T> sweep{shape, dy, blocks, nullptr, dx, shape.p, shape.q, shape.h, shape.w, padding};
  const GradientSweep<T> gradient{shape, sweep};
  with_window<T>(
      shape,
      [&]<class Window>(Window window) {
        // With stride 1 the gradient is the correlation with the weights turned by 180 degrees.
        reorder_weights(shape, weight, Window::kStride == 1, blocks);
        if constexpr (Window::kStride == 1)
          sweep.correlate(window);
        else
          gradient.template by_pairs<Window::kTaps>();
      },
      [&] {
        reorder_weights(shape, weight, false, blocks);
        gradient.any();
      });
}

#define BRIM_INSTANTIATE(T)                                                           \
  template int64_t depthwise_scratch<T>(const ConvShape&);                            \
  template void depthwise(const ConvShape&, const T*, const T*, const T*, T*, void*); \
  template void depthwise_backward_data(const ConvShape&, const T*, const T*, T*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
BRIM_INSTANTIATE(BFloat16)
BRIM_INSTANTIATE(Float16)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
