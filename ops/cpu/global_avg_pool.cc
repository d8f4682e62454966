#include "brim/ops/global_avg_pool.h"

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

constexpr int64_t kBlock = 64;  // channels whose sums are kept on the stack

// Calls `body(n, c, count)` for blocks of channels of each image, in parallel.
template <class Body>
void for_blocks(const Shape& x, const Body& body) {
  int64_t blocks = (x[3] + kBlock - 1) / kBlock, pixels = x[1] * x[2];
  parallel_for(x[0] * blocks, 16384 / (kBlock * pixels) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t c = i % blocks * kBlock;
      body(i / blocks, c, std::min(kBlock, x[3] - c));
    }
  });
}

template <class T>
void global_avg_pool(const KernelCall& call, const NoAttributes&) {
  const Shape& shape = call.in[0].shape;
  int64_t pixels = shape[1] * shape[2], channels = shape[3];
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  for_blocks(shape, [=](int64_t n, int64_t c, int64_t count) {
    double sum[kBlock] = {};
    const T* from = x + n * pixels * channels + c;
    for (int64_t p = 0; p < pixels; ++p, from += channels)
      for (int64_t i = 0; i < count; ++i) sum[i] += static_cast<double>(from[i]);
    T* to = y + n * channels + c;
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<T>(sum[i] / static_cast<double>(pixels));
  });
}

template <class T>
void global_avg_pool_backward(const KernelCall& call, const NoAttributes&) {
  const Shape& shape = call.out[0].shape;
  int64_t pixels = shape[1] * shape[2], channels = shape[3];
  const T* dy = call.in[0].as<T>();
  T* dx = call.out[0].as<T>();
  for_blocks(shape, [=](int64_t n, int64_t c, int64_t count) {
    T share[kBlock];
    for (int64_t i = 0; i < count; ++i)
      share[i] = dy[n * channels + c + i] / static_cast<T>(pixels);
    T* to = dx + n * pixels * channels + c;
    for (int64_t p = 0; p < pixels; ++p, to += channels) std::copy_n(share, count, to);
  });
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::global_avg_pool, DeviceType::cpu, dtype, global_avg_pool<T>);
  register_kernel(kernel::global_avg_pool_backward, DeviceType::cpu, dtype,
                  global_avg_pool_backward<T>);
}

}  // namespace

void register_global_avg_pool() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
