#include "brim/ops/max_pool2d.h"

#include "brim/ops/cpu/pool_loops.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

// The first of the largest; the last NaN, if there is one.
template <class T>
void max_over(const PoolTaps& taps, const T* x, int64_t channels, T* y, uint8_t* index) {
  T best[kPoolChannels];
  int32_t from[kPoolChannels];
  std::fill_n(best, channels, -std::numeric_limits<T>::infinity());
  std::fill_n(from, channels, taps.first());
  taps.for_each([&](int tap, int64_t offset) {
    const T* values = x + offset;
    for (int64_t c = 0; c < channels; ++c) {
      bool wins = (values[c] > best[c]) | (values[c] != values[c]);
      best[c] = wins ? values[c] : best[c];
      from[c] = wins ? tap : from[c];
    }
  });
  std::copy_n(best, channels, y);
  if (index != nullptr)
    for (int64_t c = 0; c < channels; ++c) index[c] = static_cast<uint8_t>(from[c]);
}

template <class T>
void max_pool2d(const KernelCall& call, const PoolWindow& window) {
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  auto* index = call.out[1].present ? call.out[1].as<uint8_t>() : nullptr;
  PoolShape shape(call.in[0].shape, call.out[0].shape);
  for_pool_outputs(shape, window, [&](const PoolTaps& taps, int64_t at, int64_t c, int64_t count) {
    max_over(taps, x + c, count, y + at + c, index == nullptr ? nullptr : index + at + c);
  });
}

// Each input collects from the windows that chose it, in row-major order.
template <class T>
void max_pool2d_backward(const KernelCall& call, const PoolWindow& window) {
  const T* dy = call.in[0].as<T>();
  const auto* index = call.in[1].as<uint8_t>();
  T* dx = call.out[0].as<T>();
  PoolShape shape(call.out[0].shape, call.in[0].shape);
  for_pool_inputs(shape, window, [&](const auto& windows, int64_t at, int64_t c, int64_t count) {
    T sum[kPoolChannels];
    std::fill_n(sum, count, T(0));
    windows.for_each([&](int tap, int64_t offset, int64_t) {
      const T* from = dy + offset + c;
      const uint8_t* chosen = index + offset + c;
      for (int64_t i = 0; i < count; ++i) sum[i] += chosen[i] == tap ? from[i] : T(0);
    });
    std::copy_n(sum, count, dx + at + c);
  });
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::max_pool2d, DeviceType::cpu, dtype, max_pool2d<T>);
  register_kernel(kernel::max_pool2d_backward, DeviceType::cpu, dtype, max_pool2d_backward<T>);
}

}  // namespace

void register_max_pool2d() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
