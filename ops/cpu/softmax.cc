#include "brim/ops/softmax.h"

#include <cmath>

#include "brim/ops/cpu/register.h"
#include "brim/ops/cpu/softmax_lines.h"

namespace brim::cpu {
namespace {

template <class T>
void softmax(const KernelCall& call, const kernel::SoftmaxAttributes& attributes) {
  const T* xs = call.in[0].as<T>();
  T* ys = call.out[0].as<T>();
  for_lines(call.in[0].shape, attributes.axis,
            [=](int64_t at, int64_t lines, int64_t length, int64_t step) {
              const T* x = xs + at;
              T* y = ys + at;
              T most[kLines];
              double sum[kLines] = {};
              line_maxima(x, lines, length, step, most);
              for (int64_t j = 0; j < length; ++j)
                for (int64_t i = 0; i < lines; ++i) {
                  y[j * step + i] = std::exp(x[j * step + i] - most[i]);
                  sum[i] += static_cast<double>(y[j * step + i]);
                }
              for (int64_t j = 0; j < length; ++j)
                for (int64_t i = 0; i < lines; ++i)
                  y[j * step + i] = static_cast<T>(static_cast<double>(y[j * step + i]) / sum[i]);
            });
}

template <class T>
void softmax_backward(const KernelCall& call, const kernel::SoftmaxAttributes& attributes) {
  const T *dys = call.in[0].as<T>(), *ys = call.in[1].as<T>();
  T* dxs = call.out[0].as<T>();
  for_lines(call.in[0].shape, attributes.axis,
            [=](int64_t at, int64_t lines, int64_t length, int64_t step) {
              const T *dy = dys + at, *y = ys + at;
              T* dx = dxs + at;
              double dot[kLines] = {};
              for (int64_t j = 0; j < length; ++j)
                for (int64_t i = 0; i < lines; ++i)
                  dot[i] +=
                      static_cast<double>(dy[j * step + i]) * static_cast<double>(y[j * step + i]);
              for (int64_t j = 0; j < length; ++j)
                for (int64_t i = 0; i < lines; ++i)
                  dx[j * step + i] = y[j * step + i] * (dy[j * step + i] - static_cast<T>(dot[i]));
            });
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::softmax, DeviceType::cpu, dtype, softmax<T>);
  register_kernel(kernel::softmax_backward, DeviceType::cpu, dtype, softmax_backward<T>);
}

}  // namespace

void register_softmax() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
