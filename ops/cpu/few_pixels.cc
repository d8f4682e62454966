#include "brim/ops/cpu/few_pixels.h"

#include <algorithm>
#include <type_traits>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu {
namespace {

// A tile: so many filters meet so many pixels at a time. One number for each pair stays in a
// register, beside what comes by.
constexpr int kFilters = 4;
constexpr int kPixels = kVectorBytes == 64 ? 4 : 2;

/// The window under each pixel, [pixels][window]: x itself where it is that.
template <class T>
struct Windows {
  const ConvShape& shape;
  T* copies;

  bool are_x() const { return shape.is_pointwise(); }

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

  const T* of(const T* x) const {
    if (are_x()) return x;
    for_taps([&](int64_t at, int64_t from) { std::copy_n(x + from, shape.c, copies + at); },
             [&](int64_t at) { std::fill_n(copies + at, shape.c, T(0)); });
    return copies;
  }

  /// dx = the sums of what the windows hold of each of its pixels.
  void add_up(T* dx) const {
    std::fill_n(dx, shape.n * shape.h * shape.w * shape.c, T(0));
    for_taps(
        [&](int64_t at, int64_t to) {
          for (int64_t c = 0; c < shape.c; ++c) dx[to + c] += copies[at + c];
        },
        [](int64_t) {});
  }
};

/// Calls body(begin, count) for [begin, end) in steps of kStep, `count` being a compile-time
/// number: kStep, and at the end ones.
template <int kStep, class Body>
void in_steps(int64_t begin, int64_t end, const Body& body) {
  for (; begin + kStep <= end; begin += kStep) body(begin, std::integral_constant<int, kStep>());
  for (; begin < end; ++begin) body(begin, std::integral_constant<int, 1>());
}

/// Filters in parallel, a few at a time: body(first, count).
template <class Body>
void for_filters(int64_t filters, const Body& body) {
  parallel_for(ceil_div(filters, int64_t{kFilters}), 1, [&](int64_t begin, int64_t end) {
    in_steps<kFilters>(begin * kFilters, std::min(end * kFilters, filters), body);
  });
}

template <class V>
auto sum_of_lanes(V value) {
  auto sum = value[0];
  for (int i = 1; i < kLanes<V>; ++i) sum += value[i];
  return sum;
}

/// sums[k][m] = the product of filter k and window m.
template <int kK, int kM, class T>
void multiply(const T* weight, const T* windows, int64_t length, T (&sums)[kK][kM]) {
  using V = Vector<T>;
  V lanes[kK][kM] = {};
  int64_t i = 0;
  for (; i + kLanes<V> <= length; i += kLanes<V>) {
    V window[kM];
    for (int m = 0; m < kM; ++m) window[m] = load<V>(windows + m * length + i);
    for (int k = 0; k < kK; ++k) {
      const V filter = load<V>(weight + k * length + i);
      for (int m = 0; m < kM; ++m) lanes[k][m] = fma(filter, window[m], lanes[k][m]);
    }
  }
  for (int k = 0; k < kK; ++k)
    for (int m = 0; m < kM; ++m) {
      sums[k][m] = sum_of_lanes(lanes[k][m]);
      for (int64_t j = i; j < length; ++j)
        sums[k][m] = fma(weight[k * length + j], windows[m * length + j], sums[k][m]);
    }
}

/// windows[m] (+)= sum over k of dy[m][k] filter k, from element `begin` to `end`.
template <bool kFirst, int kK, int kM, class T>
void spread(const T* dy, int64_t filters, const T* weight, T* windows, int64_t length,
            int64_t begin, int64_t end) {
  T factor[kM][kK];
  for (int m = 0; m < kM; ++m)
    for (int k = 0; k < kK; ++k) factor[m][k] = dy[m * filters + k];
  for_lanes<T>(end - begin, [&]<class V>(int64_t i) {
    V filter[kK];
    for (int k = 0; k < kK; ++k) filter[k] = load<V>(weight + k * length + begin + i);
    for (int m = 0; m < kM; ++m) {
      T* to = windows + m * length + begin + i;
      V sum = kFirst ? V{} : load<V>(to);
      for (int k = 0; k < kK; ++k) sum = fma(broadcast<V>(factor[m][k]), filter[k], sum);
      store(to, sum);
    }
  });
}

/// How a tile's share of dweight is stored: as the first one, added to what is there, or as the
/// only one, past the caches.
enum class Put { first, add, stream };

/// dweight of a few filters = or += sum over m of dy[m] window m.
template <Put kPut, int kK, int kM, class T>
void combine(const T* dy, int64_t filters, const T* windows, T* dweight, int64_t length) {
  T factor[kM][kK];
  for (int m = 0; m < kM; ++m)
    for (int k = 0; k < kK; ++k) factor[m][k] = dy[m * filters + k];
  for_lanes<T>(length, [&]<class V>(int64_t i) {
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

}  // namespace

bool has_few_pixels(const ConvShape& shape) {
  constexpr int64_t kMostPixels = 16, kLeastWeights = 65536;
  return shape.groups == 1 && shape.pixels() > 0 && shape.pixels() <= kMostPixels &&
         shape.k * shape.window() >= kLeastWeights;
}

template <class T>
int64_t few_pixels_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  if (!Windows<T>{shape, nullptr}.are_x()) cursor.take<T>(shape.pixels() * shape.window());
  return cursor.used();
}

template <class T>
void few_pixels(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
                void* scratch) {
  const int64_t length = shape.window();
  const T* windows = Windows<T>{shape, static_cast<T*>(scratch)}.of(x);
  for_filters(shape.k, [&](int64_t k, auto filters) {
    in_steps<kPixels>(0, shape.pixels(), [&](int64_t m, auto pixels) {
      T sums[filters()][pixels()];
      multiply(weight + k * length, windows + m * length, length, sums);
      for (int j = 0; j < pixels(); ++j)
        for (int i = 0; i < filters(); ++i)
          y[(m + j) * shape.k + k + i] = sums[i][j] + (bias == nullptr ? T(0) : bias[k + i]);
    });
  });
}

template <class T>
void few_pixels_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                              void* scratch) {
  // Elements of each window whose sums stay in the nearest cache while the filters pass by.
  constexpr int64_t kStretch = 256;
  const int64_t length = shape.window();
  const Windows<T> windows{shape, static_cast<T*>(scratch)};
  T* sums = windows.are_x() ? dx : windows.copies;
  parallel_for(ceil_div(length, kStretch), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = i * kStretch, end = std::min(begin + kStretch, length);
      in_steps<kFilters>(0, shape.k, [&](int64_t k, auto filters) {
        in_steps<kPixels>(0, shape.pixels(), [&](int64_t m, auto pixels) {
          const auto add =
              k == 0 ? spread<true, filters(), pixels(), T> : spread<false, filters(), pixels(), T>;
          add(dy + m * shape.k + k, shape.k, weight + k * length, sums + m * length, length, begin,
              end);
        });
      });
    }
  });
  if (!windows.are_x()) windows.add_up(dx);
}

template <class T>
void few_pixels_backward_weight(const ConvShape& shape, const T* x, const T* dy, T* dweight,
                                void* scratch) {
  const int64_t length = shape.window();
  const T* windows = Windows<T>{shape, static_cast<T*>(scratch)}.of(x);
  const bool streams = is_stored_once(shape, dweight);
  for_filters(shape.k, [&](int64_t k, auto filters) {
    in_steps<kPixels>(0, shape.pixels(), [&](int64_t m, auto pixels) {
      constexpr int kK = filters(), kM = pixels();
      const auto put = m > 0     ? combine<Put::add, kK, kM, T>
                       : streams ? combine<Put::stream, kK, kM, T>
                                 : combine<Put::first, kK, kM, T>;
      put(dy + m * shape.k + k, shape.k, windows + m * length, dweight + k * length, length);
    });
    if (streams) stream_fence();
  });
}

#define BRIM_INSTANTIATE(T)                                                                \
  template int64_t few_pixels_scratch<T>(const ConvShape&);                                \
  template void few_pixels(const ConvShape&, const T*, const T*, const T*, T*, void*);     \
  template void few_pixels_backward_data(const ConvShape&, const T*, const T*, T*, void*); \
  template void few_pixels_backward_weight(const ConvShape&, const T*, const T*, T*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
