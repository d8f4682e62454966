// softmax and log_softmax with their gradients.
#include <cmath>

#include "brim/ops/cuda/lines.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/log_softmax.h"
#include "brim/ops/softmax.h"

namespace brim::cuda {
namespace {

template <class T>
struct Softmax {
  const T* x;
  T* y;
  __device__ void operator()(const Line& line) const {
    const T most = line_max(line, x);
    const double sum = line_sum(line, [&](int64_t j) {
      return y[line.at + j * line.step] = std::exp(x[line.at + j * line.step] - most);
    });
    for (int64_t j = line.lane; j < line.length; j += kLanes) {
      T& to = y[line.at + j * line.step];
      to = static_cast<T>(static_cast<double>(to) / sum);
    }
  }
};

template <class T>
struct LogSoftmax {
  const T* x;
  T* y;
  __device__ void operator()(const Line& line) const {
    const T most = line_max(line, x);
    const double sum =
        line_sum(line, [&](int64_t j) { return std::exp(x[line.at + j * line.step] - most); });
    const double log_sum = static_cast<double>(most) + std::log(sum);
    for (int64_t j = line.lane; j < line.length; j += kLanes) {
      const int64_t at = line.at + j * line.step;
      y[at] = static_cast<T>(static_cast<double>(x[at]) - log_sum);
    }
  }
};

/// dx, which may be dy.
template <class T>
struct SoftmaxBackward {
  const T *dy, *y;
  T* dx;
  __device__ void operator()(const Line& line) const {
    const double dot = line_sum(line, [&](int64_t j) {
      const int64_t at = line.at + j * line.step;
      return static_cast<double>(dy[at]) * static_cast<double>(y[at]);
    });
    for (int64_t j = line.lane; j < line.length; j += kLanes) {
      const int64_t at = line.at + j * line.step;
      dx[at] = static_cast<T>(static_cast<double>(y[at]) * (static_cast<double>(dy[at]) - dot));
    }
  }
};

template <class T>
struct LogSoftmaxBackward {
  const T *dy, *y;
  T* dx;
  __device__ void operator()(const Line& line) const {
    const double sum = line_sum(line, [&](int64_t j) { return dy[line.at + j * line.step]; });
    for (int64_t j = line.lane; j < line.length; j += kLanes) {
      const int64_t at = line.at + j * line.step;
      dx[at] =
          static_cast<T>(static_cast<double>(dy[at]) - static_cast<double>(std::exp(y[at])) * sum);
    }
  }
};

template <template <class> class Body, class T>
void forward(const KernelCall& call, const kernel::SoftmaxAttributes& by) {
  for_lines("softmax", call, {call.in[0].shape, by.axis},
            Body<T>{call.in[0].as<T>(), call.out[0].as<T>()});
}

template <template <class> class Body, class T>
void backward(const KernelCall& call, const kernel::SoftmaxAttributes& by) {
  for_lines("softmax_backward", call, {call.in[0].shape, by.axis},
            Body<T>{call.in[0].as<T>(), call.in[1].as<T>(), call.out[0].as<T>()});
}

template <class T>
void register_for() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  register_kernel(kernel::softmax, kCuda, dtype_of<T>, forward<Softmax, T>);
  register_kernel(kernel::softmax_backward, kCuda, dtype_of<T>, backward<SoftmaxBackward, T>);
  register_kernel(kernel::log_softmax, kCuda, dtype_of<T>, forward<LogSoftmax, T>);
  register_kernel(kernel::log_softmax_backward, kCuda, dtype_of<T>,
                  backward<LogSoftmaxBackward, T>);
}

}  // namespace

void register_softmax() {
  register_for<float>();
  register_for<double>();
}

}  // namespace brim::cuda
