// Pooling over NHWC images, one thread a pack of neighbouring channels of a pixel (channels.cuh).
// Backward walks the inputs, each of which collects from its windows.
#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/adaptive_avg_pool2d.h"
#include "brim/ops/avg_pool2d.h"
#include "brim/ops/cuda/channels.cuh"
#include "brim/ops/cuda/pixel.cuh"
#include "brim/ops/cuda/reduce.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/ops/max_pool2d.h"
#include "brim/ops/pool_taps.h"

namespace brim::cuda {
namespace {

/// The i-th channels P of the output, or the input; c is the first of them.
template <class P>
__device__ Pixel output_at(const PoolShape& shape, int64_t i) {
  Pixel pixel(i, shape.out_h, shape.out_w, shape.channels / P::kCount);
  pixel.c *= P::kCount;
  return pixel;
}
template <class P>
__device__ Pixel input_at(const PoolShape& shape, int64_t i) {
  Pixel pixel(i, shape.in_h, shape.in_w, shape.channels / P::kCount);
  pixel.c *= P::kCount;
  return pixel;
}
__device__ int64_t input_index(const PoolShape& shape, int64_t n, int64_t h, int64_t w) {
  return ((n * shape.in_h + h) * shape.in_w + w) * shape.channels;
}
__device__ int64_t output_index(const PoolShape& shape, int64_t n, int64_t h, int64_t w) {
  return ((n * shape.out_h + h) * shape.out_w + w) * shape.channels;
}

/// What the channels P of a pixel add up to, in double.
template <class P>
struct Totals {
  using S = typename P::Element;
  double of[P::kCount] = {};

  /// Adds those at x + offset.
  __device__ void add(const S* x, int64_t offset) {
    const P values = P::load_whole(x + offset);
    BRIM_UNROLL
    for (int k = 0; k < P::kCount; ++k) of[k] += static_cast<double>(widen(values.of[k]));
  }
  template <class Finish>
  __device__ void store(S* to, const Finish& finish) const {
    P made;
    BRIM_UNROLL
    for (int k = 0; k < P::kCount; ++k) made.of[k] = round_to<S>(finish(of[k]));
    made.store(to);
  }
};

/// Places in windows of the channels P, read and written at once.
template <class P>
struct alignas(P::kCount) Places {
  uint8_t of[P::kCount];

  // Tensors of places begin where packs do.
  __device__ static Places load(const uint8_t* from) {
    require_aligned(from, P::kCount);
    return *reinterpret_cast<const Places*>(from);
  }
  __device__ void store(uint8_t* to) const {
    require_aligned(to, P::kCount);
    *reinterpret_cast<Places*>(to) = *this;
  }
};

/// The first of the largest; the last NaN, if there is one.
template <class P>
struct MaxPool {
  using S = typename P::Element;
  PoolShape shape;
  PoolWindow window;
  const S* x;
  S* y;
  uint8_t* index;  // or null

  struct Best {
    Compute<S> of[P::kCount];
    int from[P::kCount];
    __device__ void consider(const P& values, int tap) {
      BRIM_UNROLL
      for (int k = 0; k < P::kCount; ++k) {
        const Compute<S> value = widen(values.of[k]);
        if (from[k] >= 0 && !(value > of[k]) && value == value) continue;
        of[k] = value;
        from[k] = tap;
      }
    }
  };

  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = output_at<P>(shape, at.of[0]);
    const PoolTaps taps = pool_taps(shape, window, p.n, p.h, p.w);
    Best best;
    BRIM_UNROLL
    for (int k = 0; k < P::kCount; ++k) best.of[k] = 0, best.from[k] = -1;
    taps.for_each(
        [&](int tap, int64_t offset) { best.consider(P::load_whole(x + offset + p.c), tap); });
    P made;
    Places<P> places;
    BRIM_UNROLL
    for (int k = 0; k < P::kCount; ++k) {
      made.of[k] = round_to<S>(best.of[k]);
      places.of[k] = static_cast<uint8_t>(best.from[k]);
    }
    const int64_t to = at.of[0] * P::kCount;
    made.store(y + to);
    if (index != nullptr) places.store(index + to);
  }
};

template <class P>
struct MaxPoolBackward {
  using S = typename P::Element;
  PoolShape shape;
  PoolWindow window;
  const S* dy;
  const uint8_t* index;
  S* dx;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = input_at<P>(shape, at.of[0]);
    Compute<S> sums[P::kCount] = {};
    pool_covers(shape, window, p.n, p.h, p.w).for_each([&](int tap, int64_t offset, int64_t) {
      const auto places = Places<P>::load(index + offset + p.c);
      const P values = P::load_whole(dy + offset + p.c);
      BRIM_UNROLL
      for (int k = 0; k < P::kCount; ++k)
        if (places.of[k] == tap) sums[k] += widen(values.of[k]);
    });
    P made;
    BRIM_UNROLL
    for (int k = 0; k < P::kCount; ++k) made.of[k] = round_to<S>(sums[k]);
    made.store(dx + at.of[0] * P::kCount);
  }
};

template <class P>
struct AvgPool {
  using S = typename P::Element;
  PoolShape shape;
  PoolWindow window;
  const S* x;
  S* y;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = output_at<P>(shape, at.of[0]);
    const PoolTaps taps = pool_taps(shape, window, p.n, p.h, p.w);
    Totals<P> totals;
    taps.for_each([&](int, int64_t offset) { totals.add(x, offset + p.c); });
    const double share = average_share(window, taps.size());
    totals.store(y + at.of[0] * P::kCount, [share](double sum) { return sum * share; });
  }
};

template <class P>
struct AvgPoolBackward {
  using S = typename P::Element;
  PoolShape shape;
  PoolWindow window;
  const S* dy;
  S* dx;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = input_at<P>(shape, at.of[0]);
    const PoolCovers covers = pool_covers(shape, window, p.n, p.h, p.w);
    Totals<P> totals;
    for (int64_t h = covers.rows.begin; h < covers.rows.end; ++h)
      for (int64_t w = covers.columns.begin; w < covers.columns.end; ++w) {
        const P values = P::load_whole(dy + output_index(shape, p.n, h, w) + p.c);
        const double share = average_share(window, pool_taps(shape, window, p.n, h, w).size());
        BRIM_UNROLL
        for (int k = 0; k < P::kCount; ++k)
          totals.of[k] += static_cast<double>(widen(values.of[k])) * share;
      }
    totals.store(dx + at.of[0] * P::kCount, [](double sum) { return sum; });
  }
};

template <class P>
struct AdaptivePool {
  using S = typename P::Element;
  PoolShape shape;
  const S* x;
  S* y;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = output_at<P>(shape, at.of[0]);
    const Range rows = adaptive_window(p.h, shape.in_h, shape.out_h);
    const Range columns = adaptive_window(p.w, shape.in_w, shape.out_w);
    Totals<P> totals;
    for (int64_t h = rows.begin; h < rows.end; ++h)
      for (int64_t w = columns.begin; w < columns.end; ++w)
        totals.add(x, input_index(shape, p.n, h, w) + p.c);
    const auto count = static_cast<double>(rows.size() * columns.size());
    totals.store(y + at.of[0] * P::kCount, [count](double sum) { return sum / count; });
  }
};

template <class P>
struct AdaptivePoolBackward {
  using S = typename P::Element;
  PoolShape shape;
  const S* dy;
  S* dx;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = input_at<P>(shape, at.of[0]);
    const Range rows = adaptive_window(p.h, shape.out_h, shape.in_h);
    const Range columns = adaptive_window(p.w, shape.out_w, shape.in_w);
    Totals<P> totals;
    AdaptiveWalk down(rows.begin, shape.in_h, shape.out_h);
    const AdaptiveWalk along(columns.begin, shape.in_w, shape.out_w);
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const int64_t height = down.next().size();
      AdaptiveWalk right = along;
      for (int64_t j = columns.begin; j < columns.end; ++j) {
        const P values = P::load_whole(dy + output_index(shape, p.n, i, j) + p.c);
        const auto covered = static_cast<double>(height * right.next().size());
        BRIM_UNROLL
        for (int k = 0; k < P::kCount; ++k)
          totals.of[k] += static_cast<double>(widen(values.of[k])) / covered;
      }
    }
    totals.store(dx + at.of[0] * P::kCount, [](double sum) { return sum; });
  }
};

/// The mean of an image's pixels: rows are images, units their pixels.
template <class S>
struct GlobalPool {
  using State = double;
  int64_t pixels, channels;
  const S* x;
  S* y;
  __device__ double fold(int64_t n, int64_t c, int64_t first, int64_t units, int64_t step) const {
    double sum = 0;
    for (int64_t p = first; p < units; p += step)
      sum += static_cast<double>(widen(x[(n * pixels + p) * channels + c]));
    return sum;
  }
  static constexpr int kPack = Pack<S>::kCount;
  __device__ void fold_pack(int64_t n, int64_t c, int64_t first, int64_t units, int64_t step,
                            double (&sums)[kPack]) const {
    Totals<Pack<S>> totals;
    for (int64_t p = first; p < units; p += step) totals.add(x, (n * pixels + p) * channels + c);
    BRIM_UNROLL
    for (int k = 0; k < kPack; ++k) sums[k] = totals.of[k];
  }
  __device__ static void join(double& sum, const double& later) { sum += later; }
  __device__ void finish(int64_t n, int64_t c, double sum) const {
    y[n * channels + c] = round_to<S>(sum / static_cast<double>(pixels));
  }
};

template <class P>
struct GlobalPoolBackward {
  using S = typename P::Element;
  int64_t pixels, channels;
  const S* dy;
  S* dx;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t row = channels / P::kCount;
    const int64_t n = at.of[0] / row / pixels, c = at.of[0] % row * P::kCount;
    const P values = P::load_whole(dy + n * channels + c);
    P made;
    BRIM_UNROLL
    for (int k = 0; k < P::kCount; ++k)
      made.of[k] = round_to<S>(widen(values.of[k]) / static_cast<Compute<S>>(pixels));
    made.store(dx + at.of[0] * P::kCount);
  }
};

/// One `Body<P>` for all channels P of each pixel of the output, of `fields` and the buffers.
template <template <class> class Body, class S, class... Fields>
void for_outputs(const char* name, const KernelCall& call, const S* from, S* to,
                 const Fields&... fields) {
  const Shape& shape = call.out[0].shape;
  choose_channels<S>(shape.back(), {from, to}, [&]<class P>() {
    for_each_element(call, call.out[0].numel() / P::kCount, Body<P>{fields...}, name);
  });
}

template <class S>
void max_pool2d(const KernelCall& call, const PoolWindow& window) {
  const View &x = call.in[0], &y = call.out[0], &index = call.out[1];
  for_outputs<MaxPool>("max_pool2d", call, x.as<S>(), y.as<S>(), PoolShape(x.shape, y.shape),
                       window, x.as<S>(), y.as<S>(), index.as<uint8_t>());
}

template <class S>
void max_pool2d_backward(const KernelCall& call, const PoolWindow& window) {
  const View &dy = call.in[0], &dx = call.out[0], &index = call.in[1];
  for_outputs<MaxPoolBackward>("max_pool2d_backward", call, dy.as<S>(), dx.as<S>(),
                               PoolShape(dx.shape, dy.shape), window, dy.as<S>(),
                               index.as<uint8_t>(), dx.as<S>());
}

template <class S>
void avg_pool2d(const KernelCall& call, const PoolWindow& window) {
  const View &x = call.in[0], &y = call.out[0];
  for_outputs<AvgPool>("avg_pool2d", call, x.as<S>(), y.as<S>(), PoolShape(x.shape, y.shape),
                       window, x.as<S>(), y.as<S>());
}

template <class S>
void avg_pool2d_backward(const KernelCall& call, const PoolWindow& window) {
  const View &dy = call.in[0], &dx = call.out[0];
  for_outputs<AvgPoolBackward>("avg_pool2d_backward", call, dy.as<S>(), dx.as<S>(),
                               PoolShape(dx.shape, dy.shape), window, dy.as<S>(), dx.as<S>());
}

template <class S>
void adaptive_avg_pool2d(const KernelCall& call, const NoAttributes&) {
  const View &x = call.in[0], &y = call.out[0];
  for_outputs<AdaptivePool>("adaptive_avg_pool2d", call, x.as<S>(), y.as<S>(),
                            PoolShape(x.shape, y.shape), x.as<S>(), y.as<S>());
}

template <class S>
void adaptive_avg_pool2d_backward(const KernelCall& call, const NoAttributes&) {
  const View &dy = call.in[0], &dx = call.out[0];
  for_outputs<AdaptivePoolBackward>("adaptive_avg_pool2d_backward", call, dy.as<S>(), dx.as<S>(),
                                    PoolShape(dx.shape, dy.shape), dy.as<S>(), dx.as<S>());
}

ReducePlan plan_of(const Shape& x) { return {x[0], x[1] * x[2], x[3]}; }

template <class S>
int64_t global_avg_pool_scratch(const KernelCall& call, const NoAttributes&) {
  ScratchCursor cursor(nullptr);
  take_partial<GlobalPool<S>>(cursor, plan_of(call.in[0].shape));
  return cursor.used();
}

template <class S>
void global_avg_pool(const KernelCall& call, const NoAttributes&) {
  const Shape& x = call.in[0].shape;
  ScratchCursor cursor(call.scratch);
  const S* from = call.in[0].as<S>();
  reduce_columns<S>("global_avg_pool", call, plan_of(x), {from},
                    GlobalPool<S>{x[1] * x[2], x[3], from, call.out[0].as<S>()},
                    take_partial<GlobalPool<S>>(cursor, plan_of(x)));
}

template <class S>
void global_avg_pool_backward(const KernelCall& call, const NoAttributes&) {
  const Shape& x = call.out[0].shape;
  const S* dy = call.in[0].as<S>();
  S* dx = call.out[0].as<S>();
  for_outputs<GlobalPoolBackward>("global_avg_pool_backward", call, dy, dx, x[1] * x[2], x[3], dy,
                                  dx);
}

template <class S>
void register_for() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  constexpr Dtype kDtype = dtype_of<S>;
  register_kernel(kernel::max_pool2d, kCuda, kDtype, max_pool2d<S>);
  register_kernel(kernel::max_pool2d_backward, kCuda, kDtype, max_pool2d_backward<S>);
  register_kernel(kernel::avg_pool2d, kCuda, kDtype, avg_pool2d<S>);
  register_kernel(kernel::avg_pool2d_backward, kCuda, kDtype, avg_pool2d_backward<S>);
  register_kernel(kernel::adaptive_avg_pool2d, kCuda, kDtype, adaptive_avg_pool2d<S>);
  register_kernel(kernel::adaptive_avg_pool2d_backward, kCuda, kDtype,
                  adaptive_avg_pool2d_backward<S>);
  register_kernel(kernel::global_avg_pool, kCuda, kDtype, global_avg_pool<S>,
                  global_avg_pool_scratch<S>);
  register_kernel(kernel::global_avg_pool_backward, kCuda, kDtype, global_avg_pool_backward<S>);
}

}  // namespace

void register_pool() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
