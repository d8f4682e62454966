#include "brim/ops/cpu/depthwise.h"

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {
namespace {

// All loops run over pixels outside and channels inside, so that memory is read in order. A tile
// is kColumns output pixels of a row: three weights stay in registers while the inputs under all
// of them pass by.
constexpr int kColumns = 4;
constexpr int64_t kGrain = 16384;      // activations that repay a second thread
constexpr int64_t kFlushPixels = 256;  // pixels whose sum may be in T

/// The taps of a window that meet something, along one axis: tap first + i * step meets position
/// at + i * at_step, for i < count.
struct Meeting {
  int64_t count = 0, first = 0, step = 1, at = 0, at_step = 0;

  void add(int64_t tap, int64_t position) {
    if (count == 0) {
      first = tap;
      at = position;
    } else if (count == 1) {
      step = tap - first;
      at_step = position - at;
    }
    ++count;
  }
};

/// Inputs under output `o`.
Meeting inputs_of(int64_t o, int64_t size, int64_t taps, int64_t stride, int64_t padding,
                  int64_t dilation) {
  Meeting meeting;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t position = o * stride - padding + tap * dilation;
    if (position >= 0 && position < size) meeting.add(tap, position);
  }
  return meeting;
}

/// Outputs over input `i`.
Meeting outputs_of(int64_t i, int64_t size, int64_t taps, int64_t stride, int64_t padding,
                   int64_t dilation) {
  Meeting meeting;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t position = i + padding - tap * dilation;
    if (position >= 0 && position % stride == 0 && position / stride < size)
      meeting.add(tap, position / stride);
  }
  return meeting;
}

/// Weights [C,R,S] as [R][S][C]; `flip` reverses both R and S.
template <class T>
void reorder_weights(const ConvShape& shape, const T* weight, bool flip, T* to) {
  int64_t taps = shape.r * shape.s;
  for (int64_t tap = 0; tap < taps; ++tap)
    for (int64_t c = 0; c < shape.c; ++c)
      to[(flip ? taps - 1 - tap : tap) * shape.c + c] = weight[c * taps + tap];
}

/// Runs `body.operator()<V>(c)` for all channels, a vector at a time and then singly.
template <class T, class Body>
inline void for_channels(int64_t channels, const Body& body) {
  int64_t c = 0;
  for (; c + kLanes<Vector<T>> <= channels; c += kLanes<Vector<T>>)
    body.template operator()<Vector<T>>(c);
  for (; c < channels; ++c) body.template operator()<T>(c);
}

/// A plane [height][width][C] that outputs are computed from.
template <class T>
struct Plane {
  const T* data;
  int64_t width, channels;
  const T* at(int64_t row, int64_t column) const {
    return data + (row * width + column) * channels;
  }
};

/// One output pixel, of any window: the sum over the taps that meet something.
template <class T>
void one_pixel(const Plane<T>& from, const Meeting& rows, const Meeting& columns, const T* weight,
               int64_t taps_per_row, const T* bias, T* to) {
  int64_t channels = from.channels;
  for_channels<T>(channels, [&]<class V>(int64_t c) {
    V sum = bias == nullptr ? V{} : load<V>(bias + c);
    for (int64_t i = 0; i < rows.count; ++i) {
      const T* x = from.at(rows.at + i * rows.at_step, columns.at) + c;
      const T* w =
          weight + ((rows.first + i * rows.step) * taps_per_row + columns.first) * channels + c;
      for (int64_t j = 0; j < columns.count; ++j)
        sum = fma(load<V>(w + j * columns.step * channels),
                  load<V>(x + j * columns.at_step * channels), sum);
    }
    store(to + c, sum);
  });
}

/// The cache lines [from, from + count).
template <class T>
inline void prefetch(const T* from, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / static_cast<int64_t>(sizeof(T)))
    __builtin_prefetch(from + i);
}

/// kWidth neighbouring outputs of a 3x3 window. `x` is the input under the first tap of the first
/// output, in the first of the rows that exist; `weight` is that row's. kRows is their number, or
/// 0 where it is `rows`.
template <int kStride, int kWidth, int kRows, class T>
void tile_3x3(const Plane<T>& from, const T* x, int64_t rows, const T* weight, const T* bias,
              T* to) {
  constexpr int kInputs = kStride * (kWidth - 1) + 3;
  int64_t channels = from.channels, row_step = from.width * channels;
  for_channels<T>(channels, [&]<class V>(int64_t c) {
    V sums[kWidth];
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) sums[j] = bias == nullptr ? V{} : load<V>(bias + c);
    auto add_row = [&](int64_t r) {
      const T *row = x + r * row_step + c, *w = weight + r * 3 * channels + c;
      V w0 = load<V>(w), w1 = load<V>(w + channels), w2 = load<V>(w + 2 * channels);
      V in[kInputs];
#pragma GCC unroll 16
      for (int j = 0; j < kInputs; ++j) in[j] = load<V>(row + j * channels);
#pragma GCC unroll 16
      for (int j = 0; j < kWidth; ++j) {
        sums[j] = fma(w0, in[j * kStride], sums[j]);
        sums[j] = fma(w1, in[j * kStride + 1], sums[j]);
        sums[j] = fma(w2, in[j * kStride + 2], sums[j]);
      }
    };
    if constexpr (kRows == 0) {
      for (int64_t r = 0; r < rows; ++r) add_row(r);
    } else {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) add_row(r);
      // The rows that the next outputs below add to these.
      if constexpr (kLanes<V> > 1)
        for (int r = 0; r < kStride; ++r)
          prefetch(x + (kRows + r) * row_step + c * kStride * kWidth, kStride * kWidth * kLanes<V>);
    }
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) store(to + j * channels + c, sums[j]);
  });
}

/// Calls `tile.operator()<kWidth>(q)` for all of [begin, end): kColumns at a time, then the rest.
template <class Tile>
inline void for_tiles(int64_t begin, int64_t end, const Tile& tile) {
  static_assert(kColumns == 4);
  for (; begin + kColumns <= end; begin += kColumns) tile.template operator()<kColumns>(begin);
  switch (end - begin) {
    case 3: return tile.template operator()<3>(begin);
    case 2: return tile.template operator()<2>(begin);
    case 1: return tile.template operator()<1>(begin);
    default: return;
  }
}

/// Outputs [begin, end) of an axis whose 3 inputs all exist.
struct Interior {
  int64_t begin, end;
  Interior(int64_t outputs, int64_t inputs, int64_t stride, int64_t padding) {
    begin = std::clamp<int64_t>((padding + stride - 1) / stride, 0, outputs);
    int64_t last = inputs - 3 + padding;  // the largest o * stride
    end = last < 0 ? begin : std::clamp(last / stride + 1, begin, outputs);
  }
};

/// A sweep over output rows that reads a plane per image: forward, and the data gradient.
template <class T>
struct Sweep {
  const ConvShape& shape;
  const T *from, *weight, *bias;
  T* to;
  int64_t from_height, from_width, to_height, to_width;
  int64_t padding_height, padding_width;

  Plane<T> plane(int64_t image) const {
    return {from + image * from_height * from_width * shape.c, from_width, shape.c};
  }

  /// Calls row(plane, y, output) for every output row.
  template <class Row>
  void run(const Row& row) const {
    int64_t row_size = to_width * shape.c;
    parallel_for(shape.n * to_height, kGrain / std::max<int64_t>(row_size, 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     row(plane(i / to_height), i % to_height, to + i * row_size);
                 });
  }

  void correlate_pixels(const Plane<T>& in, const Meeting& rows, int64_t begin, int64_t end,
                        T* out) const {
    for (int64_t q = begin; q < end; ++q)
      one_pixel(in, rows,
                inputs_of(q, from_width, shape.s, shape.stride.w, padding_width, shape.dilation.w),
                weight, shape.s, bias, out + q * shape.c);
  }

  void correlate() const {
    run([&](const Plane<T>& in, int64_t y, T* out) {
      correlate_pixels(in, rows_under(y), 0, to_width, out);
    });
  }

  template <int kStride>
  void correlate_3x3() const {
    Interior inside(to_width, from_width, kStride, padding_width);
    run([&](const Plane<T>& in, int64_t y, T* out) {
      Meeting rows = rows_under(y);
      correlate_pixels(in, rows, 0, inside.begin, out);
      for_tiles(inside.begin, inside.end, [&]<int kWidth>(int64_t q) {
        const T* x = in.at(rows.at, q * kStride - padding_width);
        const T* w = weight + rows.first * 3 * shape.c;
        T* to_tile = out + q * shape.c;
        if (rows.count == 3) return tile_3x3<kStride, kWidth, 3>(in, x, 3, w, bias, to_tile);
        tile_3x3<kStride, kWidth, 0>(in, x, rows.count, w, bias, to_tile);
      });
      correlate_pixels(in, rows, inside.end, to_width, out);
    });
  }

  Meeting rows_under(int64_t y) const {
    return inputs_of(y, from_height, shape.r, shape.stride.h, padding_height, shape.dilation.h);
  }
};

/// The fast paths are for windows of 3x3, dense, with one stride of 1 or 2.
int64_t fast_stride(const ConvShape& shape) {
  bool fast = shape.r == 3 && shape.s == 3 && shape.dilation == Pair(1) &&
              shape.stride.h == shape.stride.w && shape.stride.h <= 2;
  return fast ? shape.stride.h : 0;
}

/// Gradients of 2 * kPatches inputs of a row, under stride 2: input columns 2q - padding and the
/// next, for q in [first, first + kPatches). `dy` is at (first row that exists, first).
/// An even column meets taps 0 (of q) and 2 (of q - 1), an odd one tap 1.
constexpr int kPatches = 4;
template <class T>
void tile_3x3_stride_2(const Plane<T>& from, const T* dy, const Meeting& rows, const T* weight,
                       T* to) {
  int64_t channels = from.channels;
  for_channels<T>(channels, [&]<class V>(int64_t c) {
    V even[kPatches] = {}, odd[kPatches] = {};
    for (int64_t i = 0; i < rows.count; ++i) {
      const T* row = dy + i * rows.at_step * from.width * channels + c;
      const T* w = weight + (rows.first + i * rows.step) * 3 * channels + c;
      V w0 = load<V>(w), w1 = load<V>(w + channels), w2 = load<V>(w + 2 * channels);
      V before = load<V>(row - channels);
#pragma GCC unroll 16
      for (int j = 0; j < kPatches; ++j) {
        V here = load<V>(row + j * channels);
        even[j] = fma(w0, here, even[j]);
        odd[j] = fma(w1, here, odd[j]);
        even[j] = fma(w2, before, even[j]);
        before = here;
      }
    }
#pragma GCC unroll 16
    for (int j = 0; j < kPatches; ++j) {
      store(to + 2 * j * channels + c, even[j]);
      store(to + (2 * j + 1) * channels + c, odd[j]);
    }
  });
}

template <class T>
struct GradientSweep {
  const ConvShape& shape;
  Sweep<T> sweep;

  Meeting rows_over(int64_t y) const {
    return outputs_of(y, shape.p, shape.r, shape.stride.h, shape.padding.h, shape.dilation.h);
  }
  void pixels(const Plane<T>& in, const Meeting& rows, int64_t begin, int64_t end, T* out) const {
    for (int64_t x = begin; x < end; ++x)
      one_pixel(in, rows,
                outputs_of(x, shape.q, shape.s, shape.stride.w, shape.padding.w, shape.dilation.w),
                sweep.weight, shape.s, static_cast<const T*>(nullptr), out + x * shape.c);
  }

  void any() const {
    sweep.run(
        [&](const Plane<T>& in, int64_t y, T* out) { pixels(in, rows_over(y), 0, shape.w, out); });
  }

  void stride_2() const {
    // q - 1 and q exist, and so do both input columns.
    int64_t padding = shape.padding.w;
    int64_t first = std::max<int64_t>(1, (padding + 1) / 2);
    int64_t end = std::min(shape.q, (shape.w + padding) / 2);
    sweep.run([&](const Plane<T>& in, int64_t y, T* out) {
      Meeting rows = rows_over(y);
      int64_t q = first, done = std::clamp<int64_t>(2 * first - padding, 0, shape.w);
      pixels(in, rows, 0, done, out);
      for (; q + kPatches <= end; q += kPatches, done += 2 * kPatches)
        tile_3x3_stride_2(in, in.at(rows.at, q), rows, sweep.weight, out + done * shape.c);
      pixels(in, rows, done, shape.w, out);
    });
  }
};

/// Sums of the weight gradient that one thread keeps: [R][S][C] in T, emptied into double.
template <class T>
struct WeightSums {
  T* sums;
  double* totals;
  int64_t size, pixels = 0;

  void clear() {
    std::fill_n(sums, size, T(0));
    std::fill_n(totals, size, 0.0);
  }
  void note(int64_t count) {
    pixels += count;
    if (pixels >= kFlushPixels) flush();
  }
  void flush() {
    for (int64_t i = 0; i < size; ++i) totals[i] += static_cast<double>(sums[i]);
    std::fill_n(sums, size, T(0));
    pixels = 0;
  }
};

template <class T>
struct WeightScratch {
  T* sums;
  double* totals;
  WeightScratch(ScratchCursor& cursor, int64_t size)
      : sums(cursor.take<T>(round_up(size) * num_threads())),
        totals(cursor.take<double>(round_up(size) * num_threads())) {}
  /// Threads do not share cache lines.
  static int64_t round_up(int64_t size) { return (size + 31) / 16 * 16; }
};

template <class T>
void one_pixel_weight(const Plane<T>& x, const Meeting& rows, const Meeting& columns, const T* dy,
                      int64_t taps_per_row, T* sums) {
  int64_t channels = x.channels;
  for_channels<T>(channels, [&]<class V>(int64_t c) {
    V gradient = load<V>(dy + c);
    for (int64_t i = 0; i < rows.count; ++i)
      for (int64_t j = 0; j < columns.count; ++j) {
        T* sum = sums +
                 ((rows.first + i * rows.step) * taps_per_row + columns.first + j * columns.step) *
                     channels +
                 c;
        V in = load<V>(x.at(rows.at + i * rows.at_step, columns.at + j * columns.at_step) + c);
        store(sum, fma(gradient, in, load<V>(sum)));
      }
  });
}

/// As `tile_3x3`, adding to the sums of the weights.
template <int kStride, class T>
void tile_3x3_weight(const Plane<T>& plane, const T* x, int64_t rows, const T* dy, T* sums) {
  int64_t channels = plane.channels, row_step = plane.width * channels;
  for_channels<T>(channels, [&]<class V>(int64_t c) {
    V gradient[kColumns];
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) gradient[j] = load<V>(dy + j * channels + c);
    const T* row = x + c;
    T* sum = sums + c;
    for (int64_t r = 0; r < rows; ++r, row += row_step, sum += 3 * channels) {
      V s0 = load<V>(sum), s1 = load<V>(sum + channels), s2 = load<V>(sum + 2 * channels);
      V in[kStride * (kColumns - 1) + 3];
#pragma GCC unroll 16
      for (int j = 0; j < kStride * (kColumns - 1) + 3; ++j) in[j] = load<V>(row + j * channels);
#pragma GCC unroll 16
      for (int j = 0; j < kColumns; ++j) {
        s0 = fma(gradient[j], in[j * kStride], s0);
        s1 = fma(gradient[j], in[j * kStride + 1], s1);
        s2 = fma(gradient[j], in[j * kStride + 2], s2);
      }
      store(sum, s0);
      store(sum + channels, s1);
      store(sum + 2 * channels, s2);
    }
  });
}

template <class T>
struct WeightSweep {
  const ConvShape& shape;
  const T *x, *dy;

  void pixels(const Plane<T>& in, const Meeting& rows, int64_t begin, int64_t end, const T* dy_row,
              T* sums) const {
    for (int64_t q = begin; q < end; ++q)
      one_pixel_weight(
          in, rows,
          inputs_of(q, shape.w, shape.s, shape.stride.w, shape.padding.w, shape.dilation.w),
          dy_row + q * shape.c, shape.s, sums);
  }

  template <int kStride>  // 0: any window
  void row(int64_t i, T* sums) const {
    int64_t image = i / shape.p;
    Plane<T> in{x + image * shape.h * shape.w * shape.c, shape.w, shape.c};
    const T* dy_row = dy + i * shape.q * shape.c;
    Meeting rows =
        inputs_of(i % shape.p, shape.h, shape.r, shape.stride.h, shape.padding.h, shape.dilation.h);
    if constexpr (kStride == 0) return pixels(in, rows, 0, shape.q, dy_row, sums);
    constexpr int64_t stride = kStride == 0 ? 1 : kStride;
    Interior inside(shape.q, shape.w, stride, shape.padding.w);
    pixels(in, rows, 0, inside.begin, dy_row, sums);
    int64_t q = inside.begin;
    for (; q + kColumns <= inside.end; q += kColumns)
      tile_3x3_weight<stride>(in, in.at(rows.at, q * stride - shape.padding.w), rows.count,
                              dy_row + q * shape.c, sums + rows.first * 3 * shape.c);
    pixels(in, rows, q, shape.q, dy_row, sums);
  }

  /// Each thread sums its own rows; the threads' totals are added in order.
  template <int kStride>
  void run(T* dweight, void* scratch) const {
    int64_t taps = shape.r * shape.s, size = taps * shape.c;
    ScratchCursor cursor(scratch);
    WeightScratch<T> parts(cursor, size);
    int64_t step = WeightScratch<T>::round_up(size), count = shape.n * shape.p;
    int64_t threads =
        std::clamp<int64_t>(shape.pixels() * shape.c / kGrain, 1,
                            std::min<int64_t>(num_threads(), std::max<int64_t>(count, 1)));
    std::fill_n(parts.totals, step * threads, 0.0);
    parallel_pieces(count, threads, [&](int64_t thread, int64_t begin, int64_t end) {
      WeightSums<T> mine{parts.sums + thread * step, parts.totals + thread * step, size};
      mine.clear();
      for (int64_t i = begin; i < end; ++i) {
        row<kStride>(i, mine.sums);
        mine.note(shape.q);
      }
      mine.flush();
    });
    for (int64_t c = 0; c < shape.c; ++c)
      for (int64_t tap = 0; tap < taps; ++tap) {
        double total = 0;
        for (int64_t t = 0; t < threads; ++t) total += parts.totals[t * step + tap * shape.c + c];
        dweight[c * taps + tap] = static_cast<T>(total);
      }
  }
};

}  // namespace

template <class T>
int64_t depthwise_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  cursor.take<T>(shape.r * shape.s * shape.c);
  return cursor.used();
}

template <class T>
void depthwise(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
               void* scratch) {
  T* reordered = ScratchCursor(scratch).take<T>(shape.r * shape.s * shape.c);
  reorder_weights(shape, weight, false, reordered);
  Sweep<T> sweep{shape,   x,       reordered,       bias,           y, shape.h, shape.w,
                 shape.p, shape.q, shape.padding.h, shape.padding.w};
  switch (fast_stride(shape)) {
    case 1:
      return sweep.template correlate_3x3<1>();
    case 2:
      return sweep.template correlate_3x3<2>();
    default:
      return sweep.correlate();
  }
}

template <class T>
void depthwise_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                             void* scratch) {
  T* reordered = ScratchCursor(scratch).take<T>(shape.r * shape.s * shape.c);
  int64_t stride = fast_stride(shape);
  reorder_weights(shape, weight, stride == 1, reordered);
  // With stride 1 the gradient is the correlation with the weights turned by 180 degrees.
  Sweep<T> sweep{shape,
                 dy,
                 reordered,
                 nullptr,
                 dx,
                 shape.p,
                 shape.q,
                 shape.h,
                 shape.w,
                 2 - shape.padding.h,
                 2 - shape.padding.w};
  if (stride == 1) return sweep.template correlate_3x3<1>();
  GradientSweep<T> gradient{shape, sweep};
  return stride == 2 ? gradient.stride_2() : gradient.any();
}

template <class T>
int64_t depthwise_backward_weight_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  WeightScratch<T>(cursor, shape.r * shape.s * shape.c);
  return cursor.used();
}

template <class T>
void depthwise_backward_weight(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                               void* scratch) {
  WeightSweep<T> sweep{shape, x, dy};
  switch (fast_stride(shape)) {
    case 1:
      return sweep.template run<1>(dweight, scratch);
    case 2:
      return sweep.template run<2>(dweight, scratch);
    default:
      return sweep.template run<0>(dweight, scratch);
  }
}

#define BRIM_INSTANTIATE(T)                                                               \
  template int64_t depthwise_scratch<T>(const ConvShape&);                                \
  template void depthwise(const ConvShape&, const T*, const T*, const T*, T*, void*);     \
  template void depthwise_backward_data(const ConvShape&, const T*, const T*, T*, void*); \
  template int64_t depthwise_backward_weight_scratch<T>(const ConvShape&);                \
  template void depthwise_backward_weight(const ConvShape&, const T*, const T*, T*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
