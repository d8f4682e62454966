#include "brim/ops/avg_pool2d.h"

#include "brim/core/launch.h"
#include "brim/ops/cpu/pool_loops.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

// A sum of few terms; longer ones go through double.
template <class V, int kVectors, class T>
inline void average(const PoolTaps& taps, double scale, const T* x, T* y) {
  V sum[kVectors] = {};
  taps.for_each([&](int, int64_t offset) {
    for (int v = 0; v < kVectors; ++v) sum[v] += load<V>(x + offset + v * kLanes<V>);
  });
  for (int v = 0; v < kVectors; ++v)
    store(y + v * kLanes<V>, sum[v] * broadcast<V>(static_cast<T>(scale)));
}

template <class T>
void average_in_double(const PoolTaps& taps, double scale, const T* x, T* y) {
  double sum = 0;
  taps.for_each([&](int, int64_t offset) { sum += static_cast<double>(x[offset]); });
  *y = static_cast<T>(sum * scale);
}

template <class T>
void avg_pool2d(const KernelCall& call, const PoolWindow& window) {
  constexpr int64_t kSmall = 64;
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  PoolShape shape(call.in[0].shape, call.out[0].shape);
  for_pool_outputs(shape, window, [&](const PoolTaps& taps, int64_t at) {
    double scale = average_share(window, taps.size());
    if (taps.size() > kSmall) {
      for (int64_t c = 0; c < shape.channels; ++c)
        average_in_double(taps, scale, x + c, y + at + c);
      return;
    }
    for_channel_vectors<T>(shape.channels, [&]<class V, int kVectors>(int64_t c) {
      average<V, kVectors>(taps, scale, x + c, y + at + c);
    });
  });
}

template <class V, int kVectors, class T>
inline void collect(const PoolCovers& covers, const PoolShape& shape, const PoolWindow& window,
                    const T* dy, T* dx) {
  V sum[kVectors] = {};
  covers.for_each([&](int, int64_t offset, int64_t number) {
    PoolTaps taps = pool_taps(shape, window, 0, number / shape.out_w, number % shape.out_w);
    V scale = broadcast<V>(static_cast<T>(average_share(window, taps.size())));
    for (int v = 0; v < kVectors; ++v)
      sum[v] = fma(load<V>(dy + offset + v * kLanes<V>), scale, sum[v]);
  });
  for (int v = 0; v < kVectors; ++v) store(dx + v * kLanes<V>, sum[v]);
}

template <class T>
void avg_pool2d_backward(const KernelCall& call, const PoolWindow& window) {
  const T* dy = call.in[0].as<T>();
  T* dx = call.out[0].as<T>();
  PoolShape shape(call.out[0].shape, call.in[0].shape);
  for_pool_inputs(shape, window, [&](const PoolCovers& covers, int64_t at) {
    for_channel_vectors<T>(shape.channels, [&]<class V, int kVectors>(int64_t c) {
      collect<V, kVectors>(covers, shape, window, dy + c, dx + at + c);
    });
  });
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::avg_pool2d, DeviceType::cpu, dtype, avg_pool2d<T>);
  register_kernel(kernel::avg_pool2d_backward, DeviceType::cpu, dtype, avg_pool2d_backward<T>);
}

}  // namespace

void register_avg_pool2d() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
