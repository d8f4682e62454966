// Batch norm with residual and activation: sums per channel (reduce.cuh), then one pass that
// writes. Coefficients per channel lie in scratch; the formula and what backward takes the
// derivative of the activation at are those of ops/cpu/batch_norm.h.
#include <cmath>

#include "brim/core/cuda/strided.cuh"
#include "brim/ops/activation_functors.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/cuda/reduce.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/norm_formula.h"

namespace brim::cuda {
namespace {

using kernel::BatchNormAttributes;

/// x [..., C] as rows of channels.
struct Pixels {
  int64_t count, channels;
  explicit Pixels(const View& x)
      : count(x.shape.back() == 0 ? 0 : x.numel() / x.shape.back()), channels(x.shape.back()) {}
  ReducePlan plan() const { return {1, count, channels}; }
};

/// Sums of d = x - shift and of its squares, in double; the shift is the channel's first value.
template <class T>
struct Statistics {
  struct State {
    double sum, square;
  };
  Pixels pixels;
  const T* x;
  double *mean, *variance;

  __device__ State fold(int64_t, int64_t c, int64_t first, int64_t units, int64_t step) const {
    State state{0, 0};
    for (int64_t p = first; p < units; p += step) {
      const double d = static_cast<double>(x[p * pixels.channels + c]) - static_cast<double>(x[c]);
      state.sum += d;
      state.square = fma(d, d, state.square);
    }
    return state;
  }
  __device__ static void join(State& state, const State& later) {
    state.sum += later.sum;
    state.square += later.square;
  }
  __device__ void finish(int64_t, int64_t c, const State& state) const {
    const bool any = pixels.count > 0;
    const double n = any ? static_cast<double>(pixels.count) : 1;
    const double around = (state.square - state.sum * (state.sum / n)) / n;
    mean[c] = any ? static_cast<double>(x[c]) + state.sum / n : 0;
    variance[c] = around > 0 ? around : 0;
  }
};

template <class T>
int64_t statistics_scratch(const KernelCall& call, const NoAttributes&) {
  ScratchCursor cursor(nullptr);
  take_partial<Statistics<T>>(cursor, Pixels(call.in[0]).plan());
  return cursor.used();
}

template <class T>
void statistics(const KernelCall& call, const NoAttributes&) {
  const Pixels pixels(call.in[0]);
  ScratchCursor cursor(call.scratch);
  reduce(
      "batch_norm_statistics", call, pixels.plan(),
      Statistics<T>{pixels, call.in[0].as<T>(), call.out[0].as<double>(), call.out[1].as<double>()},
      take_partial<Statistics<T>>(cursor, pixels.plan()));
}

/// y = (x - mean) * scale + shift; dx = g * scale + (x - mean) * slope + level. The mean is rounded
/// to T, and what is lost there is in the shift.
template <class T>
struct Coefficients {
  T *mean, *scale, *shift, *slope, *level;

  Coefficients(ScratchCursor& cursor, int64_t channels)
      : mean(cursor.take<T>(channels)),
        scale(cursor.take<T>(channels)),
        shift(cursor.take<T>(channels)),
        slope(cursor.take<T>(channels)),
        level(cursor.take<T>(channels)) {}

  /// Before the activation. Backward finds the same bits with the same formula.
  __device__ T normalized(T x, int64_t c) const { return fma(x - mean[c], scale[c], shift[c]); }
};

/// Makes the coefficients of forward, of which absent tensors leave the mean or nothing.
template <class T>
struct SetCoefficients {
  Coefficients<T> to;
  const T *weight, *bias;
  const double *mean, *variance;
  double epsilon;

  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t c = at.of[0];
    to.mean[c] = mean == nullptr ? T(0) : static_cast<T>(mean[c]);
    if (mean == nullptr || weight == nullptr) return;
    const NormChannel<T> channel =
        norm_channel<T>(mean[c], variance[c], static_cast<double>(weight[c]),
                        bias == nullptr ? 0 : static_cast<double>(bias[c]), epsilon);
    to.scale[c] = channel.scale;
    to.shift[c] = channel.shift;
  }
};

template <class T>
__device__ T activate(Activation activation, T z) {
  switch (activation) {
    case Activation::relu:
      return functor::Relu()(z);
    case Activation::relu6:
      return functor::Relu6()(z);
    case Activation::hardswish:
      return functor::Hardswish()(z);
    case Activation::none:
      break;
  }
  return z;
}

/// dy times the derivative of the activation at z; relu and relu6 take activate(z) as well.
template <class T>
__device__ T activate_backward(Activation activation, T dy, T z) {
  switch (activation) {
    case Activation::relu:
      return functor::ReluBackward()(dy, z);
    case Activation::relu6:
      return functor::Relu6Backward()(dy, z);
    case Activation::hardswish:
      return functor::HardswishBackward()(dy, z);
    case Activation::none:
      break;
  }
  return dy;
}

template <class T>
struct Normalize {
  Coefficients<T> by;
  Activation activation;
  int64_t channels;
  const T *x, *residual;
  T* y;

  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0];
    T z = by.normalized(x[i], i % channels);
    if (residual != nullptr) z += residual[i];
    y[i] = activate(activation, z);
  }
};

template <class T>
int64_t normalize_scratch(const KernelCall& call, const BatchNormAttributes&) {
  ScratchCursor cursor(nullptr);
  Coefficients<T>(cursor, Pixels(call.in[0]).channels);
  return cursor.used();
}

template <class T>
void normalize(const KernelCall& call, const BatchNormAttributes& by) {
  const Pixels pixels(call.in[0]);
  ScratchCursor cursor(call.scratch);
  const Coefficients<T> coefficients(cursor, pixels.channels);
  for_each_element(call, pixels.channels,
                   SetCoefficients<T>{coefficients, call.in[1].as<T>(), call.in[2].as<T>(),
                                      call.in[3].as<double>(), call.in[4].as<double>(), by.epsilon},
                   "batch_norm");
  for_each_element(call, call.in[0].numel(),
                   Normalize<T>{coefficients, by.activation, pixels.channels, call.in[0].as<T>(),
                                call.in[5].as<T>(), call.out[0].as<T>()},
                   "batch_norm");
}

/// g: the gradient of what went into the activation.
template <class T>
struct Gradient {
  Coefficients<T> by;
  Activation activation;
  const T *dy, *x, *y, *residual;  // all but dy may be null, as ops/batch_norm.h says

  __device__ T operator()(int64_t i, int64_t c) const {
    if (activation == Activation::none) return dy[i];
    if (y != nullptr) return activate_backward(activation, dy[i], y[i]);
    T z = by.normalized(x[i], c);
    if (residual != nullptr) z += residual[i];
    return activate_backward(activation, dy[i], z);
  }
};

/// Sums of g and of g * (x - mean), and what follows from them for each channel.
template <class T>
struct GradientSums {
  using State = NormSums;
  Gradient<T> gradient;
  Pixels pixels;
  const double *mean, *variance;
  const T* weight;
  double epsilon;
  T *dweight, *dbias, *dresidual;

  __device__ State fold(int64_t, int64_t c, int64_t first, int64_t units, int64_t step) const {
    State state{0, 0};
    for (int64_t p = first; p < units; p += step) {
      const int64_t i = p * pixels.channels + c;
      const T g = gradient(i, c);
      if (dresidual != nullptr) dresidual[i] = g;
      state.g += static_cast<double>(g);
      if (gradient.x != nullptr)
        state.gx = fma(static_cast<double>(g),
                       static_cast<double>(gradient.x[i] - gradient.by.mean[c]), state.gx);
    }
    return state;
  }
  __device__ static void join(State& state, const State& later) {
    state.g += later.g;
    state.gx += later.gx;
  }
  __device__ void finish(int64_t, int64_t c, const State& state) const {
    if (dbias != nullptr) dbias[c] = static_cast<T>(state.g);
    if (mean == nullptr) return;
    const double n = pixels.count > 0 ? static_cast<double>(pixels.count) : 1;
    const T rounded = gradient.by.mean[c];
    const double sum = weight_gradient(state, mean[c], rounded, variance[c], epsilon);
    if (dweight != nullptr) dweight[c] = static_cast<T>(sum);
    if (weight == nullptr) return;
    const NormGradient<T> made = norm_gradient(state, sum, mean[c], rounded, variance[c],
                                               static_cast<double>(weight[c]), epsilon, n);
    gradient.by.slope[c] = made.slope;
    gradient.by.level[c] = made.level;
  }
};

template <class T>
struct WriteGradient {
  Gradient<T> gradient;
  int64_t channels;
  bool training;
  T* dx;

  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0], c = i % channels;
    const Coefficients<T>& by = gradient.by;
    T value = by.scale[c] * gradient(i, c);
    if (training) value += fma(gradient.x[i] - by.mean[c], by.slope[c], by.level[c]);
    dx[i] = value;
  }
};

template <class T>
int64_t backward_scratch(const KernelCall& call, const BatchNormAttributes&) {
  const Pixels pixels(call.in[0]);
  ScratchCursor cursor(nullptr);
  Coefficients<T>(cursor, pixels.channels);
  take_partial<GradientSums<T>>(cursor, pixels.plan());
  return cursor.used();
}

template <class T>
void backward(const KernelCall& call, const BatchNormAttributes& by) {
  const Pixels pixels(call.in[0]);
  const View &mean = call.in[3], &weight = call.in[2];
  ScratchCursor cursor(call.scratch);
  const Coefficients<T> coefficients(cursor, pixels.channels);
  auto* partial = take_partial<GradientSums<T>>(cursor, pixels.plan());
  for_each_element(call, pixels.channels,
                   SetCoefficients<T>{coefficients, weight.as<T>(), call.in[5].as<T>(),
                                      mean.as<double>(), call.in[4].as<double>(), by.epsilon},
                   "batch_norm_backward");
  Gradient<T> gradient{coefficients,
                       by.activation,
                       call.in[0].as<T>(),
                       call.in[1].as<T>(),
                       by.activation == Activation::hardswish ? nullptr : call.in[6].as<T>(),
                       call.in[7].as<T>()};
  T* dresidual = call.out[3].as<T>();
  if (call.out[1].present || call.out[2].present || dresidual != nullptr ||
      (call.out[0].present && by.training))
    reduce("batch_norm_backward", call, pixels.plan(),
           GradientSums<T>{gradient, pixels, mean.as<double>(), call.in[4].as<double>(),
                           weight.as<T>(), by.epsilon, call.out[1].as<T>(), call.out[2].as<T>(),
                           dresidual},
           partial);
  if (!call.out[0].present) return;
  if (dresidual != nullptr) {  // it has gone through the activation already
    gradient.dy = dresidual;
    gradient.activation = Activation::none;
  }
  for_each_element(call, call.in[0].numel(),
                   WriteGradient<T>{gradient, pixels.channels, by.training, call.out[0].as<T>()},
                   "batch_norm_backward");
}

template <class T>
struct MoveRunning {
  kernel::RunningStatisticsAttributes by;
  const double *mean, *variance;
  const T* start;
  T *running_mean, *running_var;

  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t c = at.of[0];
    if (by.before > 0)
      pool_running(by, mean[c], variance[c], static_cast<double>(start[c]), running_mean[c],
                   running_var[c]);
    else
      move_running(by, mean[c], variance[c], running_mean[c], running_var[c]);
  }
};

template <class T>
void running_statistics(const KernelCall& call, const kernel::RunningStatisticsAttributes& by) {
  if (by.before > 0 && by.momentum == 0) return;
  for_each_element(call, call.out[0].numel(),
                   MoveRunning<T>{by, call.in[0].as<double>(), call.in[1].as<double>(),
                                  call.in[2].as<T>(), call.out[0].as<T>(), call.out[1].as<T>()},
                   "running_statistics");
}

template <class T>
void register_for() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  constexpr Dtype kDtype = dtype_of<T>;
  register_kernel(kernel::batch_norm_statistics, kCuda, kDtype, statistics<T>,
                  statistics_scratch<T>);
  register_kernel(kernel::batch_norm, kCuda, kDtype, normalize<T>, normalize_scratch<T>);
  register_kernel(kernel::batch_norm_backward, kCuda, kDtype, backward<T>, backward_scratch<T>);
  register_kernel(kernel::running_statistics, kCuda, kDtype, running_statistics<T>);
}

}  // namespace

void register_batch_norm() {
  register_for<float>();
  register_for<double>();
}

}  // namespace brim::cuda
