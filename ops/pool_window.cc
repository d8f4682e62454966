#include "brim/ops/pool_window.h"

namespace brim {
namespace {

// Windows along one axis. PyTorch's rule for ceil_mode: the last one must start inside the image
// or the padding before it.
int64_t windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode) {
  int64_t span = size + 2 * padding - kernel;
  int64_t count = (span + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (count - 1) * stride >= size + padding) --count;
  return count;
}

}  // namespace

Shape pooled_shape(const char* tag, const Shape& x, const PoolWindow& window) {
  const Pair &kernel = window.kernel, &stride = window.stride, &padding = window.padding;
  expect<ShapeError>(x.size() == 4, tag, "expected an input [N,H,W,C], got {}", x);
  expect<ValueError>(kernel.h >= 1 && kernel.w >= 1, tag, "expected a kernel of at least 1, got {}",
                     kernel);
  expect<ValueError>(stride.h >= 1 && stride.w >= 1, tag, "expected a stride of at least 1, got {}",
                     stride);
  bool covers =
      padding.h >= 0 && padding.w >= 0 && padding.h <= kernel.h / 2 && padding.w <= kernel.w / 2;
  expect<ValueError>(covers, tag, "expected a padding of 0 to half of the kernel {}, got {}",
                     kernel, padding);
  bool fits = x[1] >= 1 && x[2] >= 1 && x[1] + 2 * padding.h >= kernel.h &&
              x[2] + 2 * padding.w >= kernel.w;
  expect<ShapeError>(fits, tag,
                     "expected an input of at least the kernel {} less padding {}, got {}", kernel,
                     padding, x);
  return {x[0], windows(x[1], kernel.h, stride.h, padding.h, window.ceil_mode),
          windows(x[2], kernel.w, stride.w, padding.w, window.ceil_mode), x[3]};
}

}  // namespace brim
