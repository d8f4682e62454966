#include "brim/ops/conv_transpose2d.h"

#include "brim/base/parallel.h"
#include "brim/ops/cpu/conv2d.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

// Of the convolution from y to x.
ConvShape shape_of(const KernelCall& call, const Conv2dOptions& options) {
  return {call.out[0].shape, call.in[1].shape, call.in[0].shape, options};
}

template <class T>
int64_t scratch_bytes(const KernelCall& call, const Conv2dOptions& options) {
  return conv2d_backward_data_scratch<T>(shape_of(call, options));
}

template <class T>
void conv_transpose2d_kernel(const KernelCall& call, const Conv2dOptions& options) {
  ConvShape shape = shape_of(call, options);
  T* y = call.out[0].as<T>();
  conv2d_backward_data(shape, call.in[0].as<T>(), call.in[1].as<T>(), y, call.scratch);
  if (!call.in[2].present) return;
  const T* bias = call.in[2].as<T>();
  int64_t channels = shape.c;
  parallel_for(shape.n * shape.h * shape.w, 16384 / (channels + 1) + 1,
               [=](int64_t begin, int64_t end) {
                 for (int64_t pixel = begin; pixel < end; ++pixel)
                   for (int64_t k = 0; k < channels; ++k) y[pixel * channels + k] += bias[k];
               });
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::conv_transpose2d, DeviceType::cpu, dtype, conv_transpose2d_kernel<T>,
                  scratch_bytes<T>);
}

}  // namespace

void register_conv_transpose2d() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
