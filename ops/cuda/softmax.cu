// softmax and log_softmax with their gradients.
#include <cmath>

#include "brim/core/cuda/compute.cuh"
#include "brim/ops/cuda/lines.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/log_softmax.h"
#include "brim/ops/softmax.h"

namespace brim::cuda {
namespace {

/// Exponentials are found twice: of a half, y could not keep them.
template <class S>
struct Softmax {
  using T = Compute<S>;
  const S* x;
  S* y;
  __device__ void operator()(const Line& line) const {
    const T most = line_max(line, x);
    const auto power = [&](int64_t j) {
      return std::exp(widen(x[line.at + j * line.step]) - most);
    };
    const double sum = line_sum(line, power);
    for (int64_t j = line.lane; j < line.length; j += kLanes)
      y[line.at + j * line.step] = round_to<S>(static_cast<double>(power(j)) / sum);
  }
};

template <class S>
struct LogSoftmax {
  using T = Compute<S>;
  const S* x;
  S* y;
  __device__ void operator()(const Line& line) const {
    const T most = line_max(line, x);
    const double sum = line_sum(
        line, [&](int64_t j) { return std::exp(widen(x[line.at + j * line.step]) - most); });
    const double log_sum = static_cast<double>(most) + std::log(sum);
    for (int64_t j = line.lane; j < line.length; j += kLanes) {
      const int64_t at = line.at + j * line.step;
      y[at] = round_to<S>(static_cast<double>(widen(x[at])) - log_sum);
    }
  }
};

/// dx, which may be dy.
template <class S>
struct SoftmaxBackward {
  const S *dy, *y;
  S* dx;
  __device__ void operator()(const Line& line) const {
    const double dot = line_sum(line, [&](int64_t j) {
      const int64_t at = line.at + j * line.step;
      return static_cast<double>(widen(dy[at])) * static_cast<double>(widen(y[at]));
    });
    for (int64_t j = line.lane; j < line.length; j += kLanes) {
      const int64_t at = line.at + j * line.step;
      const double apart = static_cast<double>(widen(dy[at])) - dot;
      dx[at] = round_to<S>(static_cast<double>(widen(y[at])) * apart);
    }
  }
};

template <class S>
struct LogSoftmaxBackward {
  const S *dy, *y;
  S* dx;
  __device__ void operator()(const Line& line) const {
    const double sum =
        line_sum(line, [&](int64_t j) { return widen(dy[line.at + j * line.step]); });
    for (int64_t j = line.lane; j < line.length; j += kLanes) {
      const int64_t at = line.at + j * line.step;
      const auto p = static_cast<double>(std::exp(widen(y[at])));
      dx[at] = round_to<S>(static_cast<double>(widen(dy[at])) - p * sum);
    }
  }
};

template <template <class> class Body, class S>
void forward(const KernelCall& call, const kernel::SoftmaxAttributes& by) {
  for_lines("softmax", call, {call.in[0].shape, by.axis},
            Body<S>{call.in[0].as<S>(), call.out[0].as<S>()});
}

template <template <class> class Body, class S>
void backward(const KernelCall& call, const kernel::SoftmaxAttributes& by) {
  for_lines("softmax_backward", call, {call.in[0].shape, by.axis},
            Body<S>{call.in[0].as<S>(), call.in[1].as<S>(), call.out[0].as<S>()});
}

template <class S>
void register_for() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  register_kernel(kernel::softmax, kCuda, dtype_of<S>, forward<Softmax, S>);
  register_kernel(kernel::softmax_backward, kCuda, dtype_of<S>, backward<SoftmaxBackward, S>);
  register_kernel(kernel::log_softmax, kCuda, dtype_of<S>, forward<LogSoftmax, S>);
  register_kernel(kernel::log_softmax_backward, kCuda, dtype_of<S>,
                  backward<LogSoftmaxBackward, S>);
}

}  // namespace

void register_softmax() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
