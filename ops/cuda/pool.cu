// Pooling over NHWC images, one thread an element: neighbours along the channels read neighbouring
// inputs. Backward walks the inputs, each of which collects from its windows.
#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/adaptive_avg_pool2d.h"
#include "brim/ops/avg_pool2d.h"
#include "brim/ops/cuda/pixel.cuh"
#include "brim/ops/cuda/reduce.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/ops/max_pool2d.h"
#include "brim/ops/pool_taps.h"

namespace brim::cuda {
namespace {

__device__ Pixel output_at(const PoolShape& shape, int64_t i) {
  return {i, shape.out_h, shape.out_w, shape.channels};
}
__device__ Pixel input_at(const PoolShape& shape, int64_t i) {
  return {i, shape.in_h, shape.in_w, shape.channels};
}
__device__ int64_t input_index(const PoolShape& shape, int64_t n, int64_t h, int64_t w) {
  return ((n * shape.in_h + h) * shape.in_w + w) * shape.channels;
}
__device__ int64_t output_index(const PoolShape& shape, int64_t n, int64_t h, int64_t w) {
  return ((n * shape.out_h + h) * shape.out_w + w) * shape.channels;
}

/// The first of the largest; the last NaN, if there is one.
template <class S>
struct MaxPool {
  PoolShape shape;
  PoolWindow window;
  const S* x;
  S* y;
  uint8_t* index;  // or null
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = output_at(shape, at.of[0]);
    const PoolTaps taps = pool_taps(shape, window, p.n, p.h, p.w);
    Compute<S> best = 0;
    int from = -1;
    taps.for_each([&](int tap, int64_t offset) {
      const Compute<S> value = widen(x[offset + p.c]);
      if (from < 0 || value > best || value != value) {
        best = value;
        from = tap;
      }
    });
    y[at.of[0]] = round_to<S>(best);
    if (index != nullptr) index[at.of[0]] = static_cast<uint8_t>(from);
  }
};

template <class S>
struct MaxPoolBackward {
  PoolShape shape;
  PoolWindow window;
  const S* dy;
  const uint8_t* index;
  S* dx;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = input_at(shape, at.of[0]);
    Compute<S> sum = 0;
    pool_covers(shape, window, p.n, p.h, p.w).for_each([&](int tap, int64_t offset, int64_t) {
      if (index[offset + p.c] == tap) sum += widen(dy[offset + p.c]);
    });
    dx[at.of[0]] = round_to<S>(sum);
  }
};

template <class S>
struct AvgPool {
  PoolShape shape;
  PoolWindow window;
  const S* x;
  S* y;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = output_at(shape, at.of[0]);
    const PoolTaps taps = pool_taps(shape, window, p.n, p.h, p.w);
    double sum = 0;
    taps.for_each([&](int, int64_t offset) { sum += static_cast<double>(widen(x[offset + p.c])); });
    y[at.of[0]] = round_to<S>(sum * average_share(window, taps.size()));
  }
};

template <class S>
struct AvgPoolBackward {
  PoolShape shape;
  PoolWindow window;
  const S* dy;
  S* dx;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = input_at(shape, at.of[0]);
    double sum = 0;
    pool_covers(shape, window, p.n, p.h, p.w).for_each([&](int, int64_t offset, int64_t number) {
      const PoolTaps taps =
          pool_taps(shape, window, p.n, number / shape.out_w, number % shape.out_w);
      sum += static_cast<double>(widen(dy[offset + p.c])) * average_share(window, taps.size());
    });
    dx[at.of[0]] = round_to<S>(sum);
  }
};

template <class S>
struct AdaptivePool {
  PoolShape shape;
  const S* x;
  S* y;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = output_at(shape, at.of[0]);
    const Range rows = adaptive_window(p.h, shape.in_h, shape.out_h);
    const Range columns = adaptive_window(p.w, shape.in_w, shape.out_w);
    double sum = 0;
    for (int64_t h = rows.begin; h < rows.end; ++h)
      for (int64_t w = columns.begin; w < columns.end; ++w)
        sum += static_cast<double>(widen(x[input_index(shape, p.n, h, w) + p.c]));
    y[at.of[0]] = round_to<S>(sum / static_cast<double>(rows.size() * columns.size()));
  }
};

template <class S>
struct AdaptivePoolBackward {
  PoolShape shape;
  const S* dy;
  S* dx;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel p = input_at(shape, at.of[0]);
    const Range rows = adaptive_window(p.h, shape.out_h, shape.in_h);
    const Range columns = adaptive_window(p.w, shape.out_w, shape.in_w);
    double sum = 0;
    for (int64_t i = rows.begin; i < rows.end; ++i)
      for (int64_t j = columns.begin; j < columns.end; ++j) {
        const int64_t covered = adaptive_window(i, shape.in_h, shape.out_h).size() *
                                adaptive_window(j, shape.in_w, shape.out_w).size();
        sum += static_cast<double>(widen(dy[output_index(shape, p.n, i, j) + p.c])) /
               static_cast<double>(covered);
      }
    dx[at.of[0]] = round_to<S>(sum);
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
  __device__ static void join(double& sum, const double& later) { sum += later; }
  __device__ void finish(int64_t n, int64_t c, double sum) const {
    y[n * channels + c] = round_to<S>(sum / static_cast<double>(pixels));
  }
};

template <class S>
struct GlobalPoolBackward {
  int64_t pixels, channels;
  const S* dy;
  S* dx;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t n = at.of[0] / channels / pixels, c = at.of[0] % channels;
    dx[at.of[0]] = round_to<S>(widen(dy[n * channels + c]) / static_cast<Compute<S>>(pixels));
  }
};

template <class Body>
void for_outputs(const char* name, const KernelCall& call, const Body& body) {
  for_each_element(call, call.out[0].numel(), body, name);
}

template <class S>
void max_pool2d(const KernelCall& call, const PoolWindow& window) {
  const View &x = call.in[0], &y = call.out[0], &index = call.out[1];
  for_outputs("max_pool2d", call,
              MaxPool<S>{{x.shape, y.shape}, window, x.as<S>(), y.as<S>(), index.as<uint8_t>()});
}

template <class S>
void max_pool2d_backward(const KernelCall& call, const PoolWindow& window) {
  const View &dy = call.in[0], &dx = call.out[0];
  for_outputs("max_pool2d_backward", call,
              MaxPoolBackward<S>{
                  {dx.shape, dy.shape}, window, dy.as<S>(), call.in[1].as<uint8_t>(), dx.as<S>()});
}

template <class S>
void avg_pool2d(const KernelCall& call, const PoolWindow& window) {
  const View &x = call.in[0], &y = call.out[0];
  for_outputs("avg_pool2d", call, AvgPool<S>{{x.shape, y.shape}, window, x.as<S>(), y.as<S>()});
}

template <class S>
void avg_pool2d_backward(const KernelCall& call, const PoolWindow& window) {
  const View &dy = call.in[0], &dx = call.out[0];
  for_outputs("avg_pool2d_backward", call,
              AvgPoolBackward<S>{{dx.shape, dy.shape}, window, dy.as<S>(), dx.as<S>()});
}

template <class S>
void adaptive_avg_pool2d(const KernelCall& call, const NoAttributes&) {
  const View &x = call.in[0], &y = call.out[0];
  for_outputs("adaptive_avg_pool2d", call,
              AdaptivePool<S>{{x.shape, y.shape}, x.as<S>(), y.as<S>()});
}

template <class S>
void adaptive_avg_pool2d_backward(const KernelCall& call, const NoAttributes&) {
  const View &dy = call.in[0], &dx = call.out[0];
  for_outputs("adaptive_avg_pool2d_backward", call,
              AdaptivePoolBackward<S>{{dx.shape, dy.shape}, dy.as<S>(), dx.as<S>()});
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
  reduce("global_avg_pool", call, plan_of(x),
         GlobalPool<S>{x[1] * x[2], x[3], call.in[0].as<S>(), call.out[0].as<S>()},
         take_partial<GlobalPool<S>>(cursor, plan_of(x)));
}

template <class S>
void global_avg_pool_backward(const KernelCall& call, const NoAttributes&) {
  const Shape& x = call.out[0].shape;
  for_outputs("global_avg_pool_backward", call,
              GlobalPoolBackward<S>{x[1] * x[2], x[3], call.in[0].as<S>(), call.out[0].as<S>()});
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
