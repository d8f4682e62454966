#include "brim/ops/avg_pool2d.h"

#include "brim/core/launch.h"
#include "brim/ops/cpu/pool_loops.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

// What the sum of a window is multiplied by. Windows never leave the padding: no ceil_mode.
double share(const PoolWindow& window, int64_t inside) {
  int64_t count = window.count_include_pad ? window.kernel.h * window.kernel.w : inside;
  return 1 / static_cast<double>(count);
}

template <class T>
void avg_pool2d(const KernelCall& call, const PoolWindow& window) {
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  PoolShape shape(call.in[0].shape, call.out[0].shape);
  for_pool_outputs(shape, window, [&](const PoolTaps& taps, int64_t at, int64_t c, int64_t count) {
    double sum[kPoolChannels];
    std::fill_n(sum, count, 0.0);
    taps.for_each([&](int, int64_t offset) {
      const T* from = x + offset + c;
      for (int64_t i = 0; i < count; ++i) sum[i] += static_cast<double>(from[i]);
    });
    double scale = share(window, taps.size());
    for (int64_t i = 0; i < count; ++i) y[at + c + i] = static_cast<T>(sum[i] * scale);
  });
}

template <class T>
void avg_pool2d_backward(const KernelCall& call, const PoolWindow& window) {
  const T* dy = call.in[0].as<T>();
  T* dx = call.out[0].as<T>();
  PoolShape shape(call.out[0].shape, call.in[0].shape);
  for_pool_inputs(
      shape, window, [&](const PoolCovers& covers, int64_t at, int64_t c, int64_t count) {
        double sum[kPoolChannels];
        std::fill_n(sum, count, 0.0);
        covers.for_each([&](int, int64_t offset, int64_t number) {
          PoolTaps taps = pool_taps(shape, window, 0, number / shape.out_w, number % shape.out_w);
          double scale = share(window, taps.size());
          const T* from = dy + offset + c;
          for (int64_t i = 0; i < count; ++i) sum[i] += static_cast<double>(from[i]) * scale;
        });
        for (int64_t i = 0; i < count; ++i) dx[at + c + i] = static_cast<T>(sum[i]);
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
