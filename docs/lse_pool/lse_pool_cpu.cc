// The CPU's kernels of lse_pool. They see views, and nothing of tensors or the tape.
#include <algorithm>
#include <cmath>

#include "brim/base/parallel.h"
#include "brim/docs/lse_pool/lse_pool.h"

namespace example {
namespace {

using namespace brim;

// [scratch]
// One sum for each image and channel, in double. The kernel takes its pieces in the same way.
double* take_sums(ScratchCursor& cursor, const KernelCall& call) {
  return cursor.take<double>(call.out[0].numel());
}

int64_t scratch_bytes(const KernelCall& call, const LsePoolOptions&) {
  ScratchCursor cursor(nullptr);
  take_sums(cursor, call);
  return cursor.used();
}
// [/scratch]

// [forward]
/// One image: x [pixels,channels] to y [channels]. The largest value is taken out of the
/// exponentials, so that none overflows: y = m + log(sum of exp(r (x - m)) / pixels) / r.
template <class T>
void pool_image(const T* x, T* y, double* sum, int64_t pixels, int64_t channels, double r) {
  std::copy_n(x, channels, y);
  for (int64_t i = 1; i < pixels; ++i)
    for (int64_t c = 0; c < channels; ++c) y[c] = std::max(y[c], x[i * channels + c]);
  for (int64_t c = 0; c < channels; ++c)
    if (std::isinf(y[c])) y[c] = 0;  // infinity - infinity is NaN
  std::fill_n(sum, channels, 0.0);
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = 0; c < channels; ++c)
      sum[c] += std::exp(r * (static_cast<double>(x[i * channels + c]) - y[c]));
  for (int64_t c = 0; c < channels; ++c)
    y[c] = static_cast<T>(y[c] + std::log(sum[c] / static_cast<double>(pixels)) / r);
}

template <class T>
void forward(const KernelCall& call, const LsePoolOptions& options) {
  const Shape& shape = call.in[0].shape;
  int64_t pixels = shape[1] * shape[2], channels = shape[3];
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  ScratchCursor cursor(call.scratch);
  double* sums = take_sums(cursor, call);
  parallel_for(shape[0], 1, [=](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      pool_image(x + n * pixels * channels, y + n * channels, sums + n * channels, pixels, channels,
                 options.sharpness);
  });
}
// [/forward]

template <class T>
void backward(const KernelCall& call, const LsePoolOptions& options) {
  const Shape& shape = call.out[0].shape;
  int64_t pixels = shape[1] * shape[2], channels = shape[3];
  const T *dy = call.in[0].as<T>(), *x = call.in[1].as<T>(), *y = call.in[2].as<T>();
  T* dx = call.out[0].as<T>();
  double r = options.sharpness, scale = 1 / static_cast<double>(pixels);
  parallel_for(shape[0] * pixels, 16384 / std::max<int64_t>(channels, 1) + 1,
               [=](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   for (int64_t c = 0; c < channels; ++c) {
                     int64_t at = i * channels + c, of = i / pixels * channels + c;
                     double share = scale * std::exp(r * (static_cast<double>(x[at]) - y[of]));
                     dx[at] = static_cast<T>(dy[of] * share);
                   }
               });
}

// [register]
template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::lse_pool, DeviceType::cpu, dtype, forward<T>, scratch_bytes);
  register_kernel(kernel::lse_pool_backward, DeviceType::cpu, dtype, backward<T>);
}

}  // namespace

bool register_lse_pool() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
  return true;
}
// [/register]

}  // namespace example
