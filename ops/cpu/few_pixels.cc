#include "brim/ops/cpu/few_pixels.h"

#include <algorithm>
#include <type_traits>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/few_rows.h"

namespace brim::cpu {
namespace {

// A tile: so many filters meet so many pixels at a time. One number for each pair stays in a
// register, beside what comes by.
constexpr int kFilters = kVectorBytes == 64 ? 4 : 2;
constexpr int kPixels = 4;

/// The window under each pixel, [pixels][window]: x itself where it is that.
template <class T>
struct Windows {
  const ConvShape& shape;
  T* copies;

  bool are_x() const { return shape.is_pointwise(); }

  const T* of(const T* x) const {
    if (are_x()) return x;
    copy(x);
    return copies;
  }

  void copy(const T* x) const {
    for_channels([&](int64_t begin, int64_t count) {
      for_taps([&](int64_t at,
                   int64_t from) { std::copy_n(x + from + begin, count, copies + at + begin); },
               [&](int64_t at) { std::fill_n(copies + at + begin, count, T(0)); });
    });
  }

  /// dx = the sums of what the windows hold of each of its pixels, in as many parts, each with
  /// copies of its own.
  void add_up(T* dx, int64_t parts) const {
    const int64_t size = shape.pixels() * shape.window();
    for_channels([&](int64_t begin, int64_t count) {
      for (int64_t pixel = 0; pixel < shape.n * shape.h * shape.w; ++pixel)
        std::fill_n(dx + pixel * shape.c + begin, count, T(0));
      for_taps(
          [&](int64_t at, int64_t to) {
            for (const T* from = copies + at; from < copies + parts * size; from += size)
              for (int64_t c = begin; c < begin + count; ++c) dx[to + c] += from[c];
          },
          [](int64_t) {});
    });
  }

 private:
  /// Channels in parallel: body(first, count).
  template <class Body>
  void for_channels(const Body& body) const {
    constexpr int64_t kGrain = 16384;  // elements that repay a second thread
    parallel_for(shape.c, kGrain * shape.c / (shape.pixels() * shape.window()) + 1,
                 [&](int64_t begin, int64_t end) { body(begin, end - begin); });
  }

  /// Calls body(offset in the windows, offset in x) for each tap of each window inside, and
  /// `outside(offset in the windows)` for the others.
  template <class Inside, class Outside>
  void for_taps(const Inside& inside, const Outside& outside) const {
    int64_t at = 0;
    for (int64_t n = 0; n < shape.n; ++n)
      for (int64_t p = 0; p < shape.p; ++p)
        for (int64_t q = 0; q < shape.q; ++q)
          for (int64_t r = 0; r < shape.r; ++r)
            for (int64_t s = 0; s < shape.s; ++s, at += shape.c) {
              const int64_t y = p * shape.stride.h - shape.padding.h + r * shape.dilation.h;
              const int64_t x = q * shape.stride.w - shape.padding.w + s * shape.dilation.w;
              if (y >= 0 && y < shape.h && x >= 0 && x < shape.w)
                inside(at, ((n * shape.h + y) * shape.w + x) * shape.c);
              else
                outside(at);
            }
  }
};

/// Calls body(begin, count) for [begin, end) in steps of kStep, `count` being a compile-time
/// number: kStep, and at the end ones.
template <int kStep, class Body>
void in_steps(int64_t begin, int64_t end, const Body& body) {
  for (; begin + kStep <= end; begin += kStep) body(begin, std::integral_constant<int, kStep>());
  for (; begin < end; ++begin) body(begin, std::integral_constant<int, 1>());
}

/// How a tile's share of dweight is stored: as the first one, added to what is there, or as the
/// only one, past the caches.
enum class Put { first, add, stream };

/// dweight of a few filters = or += sum over m of dy[m] window m, for `count` of `length` elements.
template <Put kPut, int kK, int kM, class T>
void combine(const T* dy, int64_t filters, const T* windows, T* dweight, int64_t length,
             int64_t count) {
  T factor[kM][kK];
  for (int m = 0; m < kM; ++m)
    for (int k = 0; k < kK; ++k) factor[m][k] = dy[m * filters + k];
  for_lanes<T>(count, [&]<class V>(int64_t i) {
    V window[kM];
    for (int m = 0; m < kM; ++m) window[m] = load<V>(windows + m * length + i);
    for (int k = 0; k < kK; ++k) {
      T* to = dweight + k * length + i;
      V sum = kPut == Put::add ? load<V>(to) : V{};
      for (int m = 0; m < kM; ++m) sum = fma(broadcast<V>(factor[m][k]), window[m], sum);
      if constexpr (kPut == Put::stream && is_vector<V>)
        stream(to, sum);
      else
        store(to, sum);
    }
  });
}

/// Is every element of dweight stored once, and are there so many of them that the optimizer will
/// not find them in a cache? A normal store would read each line first.
template <class T>
bool is_stored_once(const ConvShape& shape, const T* dweight) {
  constexpr int64_t kLarge = int64_t{4} << 20;  // bytes
  return shape.pixels() <= kPixels && shape.window() % kLanes<Vector<T>> == 0 &&
         shape.k * shape.window() * static_cast<int64_t>(sizeof(T)) >= kLarge &&
         reinterpret_cast<uintptr_t>(dweight) % kVectorBytes == 0;
}

/// Parts of the filters whose shares of dx are summed apart: a thread then reads the filters that
/// it read forward and will update, where one that took a stretch of all windows would leave half
/// of what another thread updates in its own cache, for that one to fetch. One part where the
/// shares are not far smaller than the weights.
int64_t data_parts(const ConvShape& shape) {
  constexpr int64_t kParts = 4;
  return shape.k >= 4 * kParts * shape.pixels() ? kParts : 1;
}

}  // namespace

bool has_few_pixels(const ConvShape& shape, int64_t most) {
  constexpr int64_t kLeastWeights = 16384;
  constexpr int64_t kLeastTerms = 4, kLeastForOne = 1024;  // of a window, and weights, for a pixel
  return shape.groups == 1 && !shape.is_depthwise() && shape.pixels() > 0 &&
         shape.pixels() <= most && shape.window() >= kLeastTerms * shape.pixels() &&
         shape.k * shape.window() >= std::max(kLeastWeights, kLeastForOne * shape.pixels());
}

template <class T>
int64_t few_pixels_scratch(const ConvShape& shape, ConvPass pass) {
  const int64_t parts = pass == ConvPass::backward_data ? data_parts(shape) : 1;
  ScratchCursor cursor(nullptr);
  if (parts > 1 || !Windows<T>{shape, nullptr}.are_x())
    cursor.take<T>(parts * shape.pixels() * shape.window());
  return cursor.used();
}

template <class T>
void conv2d_windows(const ConvShape& shape, const T* x, T* windows) {
  Windows<T>{shape, windows}.copy(x);
}

template <class T>
void few_pixels(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
                void* scratch) {
  const T* windows = Windows<T>{shape, static_cast<T*>(scratch)}.of(x);
  const few_rows::Dots<T> products{windows, weight, bias, y, shape.k, shape.window()};
  parallel_for(shape.k, 1, [&](int64_t begin, int64_t end) {
    few_rows::dots(products, {0, shape.pixels()}, {begin, end}, [](T sum) { return sum; });
  });
}

template <class T>
void few_pixels_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                              void* scratch) {
  constexpr int64_t kUnit = 64;  // elements of a window that a thread takes
  const int64_t length = shape.window(), units = ceil_div(length, kUnit);
  const int64_t parts = data_parts(shape);
  const Windows<T> windows{shape, static_cast<T*>(scratch)};
  const bool is_dx = parts == 1 && windows.are_x();
  const auto work = [&](int64_t part, int64_t begin, int64_t end) {
    const int64_t first = shape.k * part / parts, last = shape.k * (part + 1) / parts;
    const tiles::Product<T> product{
        .a = dy + first,
        .a_row = shape.k,
        .a_step = 1,
        .b = weight + first * length,
        .b_row = length,
        .c = is_dx ? dx : windows.copies + part * shape.pixels() * length,
        .c_row = length,
        .depth = last - first};
    few_rows::multiply(product, {0, shape.pixels()},
                       {begin * kUnit, std::min(end * kUnit, length)});
  };
  parallel_for(parts * units, 1, [&](int64_t begin, int64_t end) {
    for (int64_t next; begin < end; begin = next) {
      const int64_t part = begin / units;
      next = std::min(end, (part + 1) * units);
      work(part, begin - part * units, next - part * units);
    }
  });
  if (!is_dx) windows.add_up(dx, parts);
}

template <class T>
void few_pixels_backward_weight(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                                void* scratch) {
  constexpr auto kStretch = static_cast<int64_t>(few_rows::kStretchBytes / sizeof(T));
  const int64_t length = shape.window();
  const T* windows = Windows<T>{shape, static_cast<T*>(scratch)}.of(x);
  const bool streams = is_stored_once(shape, dweight);
  const auto work = [&](int64_t k, auto filters, int64_t at) {
    in_steps<kPixels>(0, shape.pixels(), [&](int64_t m, auto pixels) {
      constexpr int kK = filters(), kM = pixels();
      const auto put = m > 0     ? combine<Put::add, kK, kM, T>
                       : streams ? combine<Put::stream, kK, kM, T>
                                 : combine<Put::first, kK, kM, T>;
      put(dy + m * shape.k + k, shape.k, windows + m * length + at, dweight + k * length + at,
          length, std::min(kStretch, length - at));
    });
  };
  parallel_for(ceil_div(shape.k, int64_t{kFilters}), 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = 0; at < length; at += kStretch)
      in_steps<kFilters>(begin * kFilters, std::min(end * kFilters, shape.k),
                         [&](int64_t k, auto filters) { work(k, filters, at); });
    if (streams) stream_fence();
  });
}

#define BRIM_INSTANTIATE(T)                                                                \
  template int64_t few_pixels_scratch<T>(const ConvShape&, ConvPass);                      \
  template void conv2d_windows(const ConvShape&, const T*, T*);                            \
  template void few_pixels(const ConvShape&, const T*, const T*, const T*, T*, void*);     \
  template void few_pixels_backward_data(const ConvShape&, const T*, const T*, T*, void*); \
  template void few_pixels_backward_weight(const ConvShape&, const T*, const T*, T*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
