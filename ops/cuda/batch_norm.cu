// Batch norm with residual and activation: one pass that writes, in backward after sums per channel
// (reduce.cuh). The formula and what backward takes the derivative of the activation at are those
// of ops/cpu/batch_norm.h; the statistics are in batch_norm_statistics.cu.
#include <cmath>

#include "brim/core/cuda/strided.cuh"
#include "brim/core/cuda/vector.cuh"
#include "brim/ops/activation_functors.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/cuda/batch_norm.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/norm_formula.h"

namespace brim::cuda {
namespace {

using kernel::BatchNormAttributes;

/// Makes the coefficients of forward, of which absent tensors leave the mean or nothing.
template <class S>
struct SetCoefficients {
  using T = Compute<S>;
  Coefficients<T> to;
  Values<S> weight, bias;
  const double *mean, *variance;
  double epsilon;

  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t c = at.of[0];
    to.mean[c] = mean == nullptr ? T(0) : static_cast<T>(mean[c]);
    if (mean == nullptr || !weight.present()) return;
    const NormChannel<T> channel =
        norm_channel<T>(mean[c], variance[c], static_cast<double>(weight.read(c)),
                        bias.present() ? static_cast<double>(bias.read(c)) : 0, epsilon);
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

/// y of x and the residual.
template <class T, class Channel>
struct Normalize {
  Coefficients<T> by;
  Activation activation;
  int64_t channels;
  bool adds;  // there is a residual

  struct Element {
    const Normalize& how;
    Channel channel;
    __device__ T operator()(T x, T residual) const {
      T z = normalized(x, channel);
      if (how.adds) z += residual;
      return activate(how.activation, z);
    }
    __device__ void next() { channel.next(); }
  };
  __device__ Element from(int64_t i) const { return {*this, {by, i, channels}}; }
};

template <class S>
int64_t normalize_scratch(const KernelCall& call, const BatchNormAttributes&) {
  ScratchCursor cursor(nullptr);
  Coefficients<Compute<S>>(cursor, Pixels(call.in[0]).channels);
  return cursor.used();
}

template <class S>
void normalize(const KernelCall& call, const BatchNormAttributes& by) {
  using T = Compute<S>;
  constexpr const char* kName = "batch_norm";
  const View &x = call.in[0], &residual = call.in[5];
  const int64_t channels = Pixels(x).channels;
  ScratchCursor cursor(call.scratch);
  const Coefficients<T> coefficients(cursor, channels);
  for_each_element(call, channels,
                   SetCoefficients<S>{coefficients, Values<S>(call.in[1]), Values<S>(call.in[2]),
                                      call.in[3].as<double>(), call.in[4].as<double>(), by.epsilon},
                   kName);
  S* y = call.out[0].as<S>();
  choose_coefficients<S>(channels, {y, x.as<S>(), residual.as<S>()}, [&]<class Channel>() {
    map_from(call, x.numel(),
             Normalize<T, Channel>{coefficients, by.activation, channels, residual.present}, kName,
             y, x.as<S>(), residual.as<S>());
  });
}

/// g: the gradient of what went into the activation. Of what is absent (ops/batch_norm.h) the
/// values do not matter.
template <class T>
struct Gradient {
  Coefficients<T> by;
  Activation activation;
  bool from_y, adds;  // the derivative is taken at y; there is a residual

  template <class Channel>
  __device__ T operator()(const Channel& channel, T dy, T x, T y, T residual) const {
    if (activation == Activation::none) return dy;
    if (from_y) return activate_backward(activation, dy, y);
    T z = normalized(x, channel);
    if (adds) z += residual;
    return activate_backward(activation, dy, z);
  }
};

/// Sums of g and of g * (x - mean), and what follows from them for each channel.
template <class S>
struct GradientSums {
  using T = Compute<S>;
  using State = NormSums;
  Gradient<T> gradient;
  const S *dy, *x, *y, *residual;  // all but dy may be null
  Pixels pixels;
  const double *mean, *variance;
  Values<S> weight;
  double epsilon;
  Values<S> dweight, dbias;
  S* dresidual;

  __device__ State fold(int64_t, int64_t c, int64_t first, int64_t units, int64_t step) const {
    State state{0, 0};
    const OneByOne<T> channel(gradient.by, c, pixels.channels);
    for (int64_t p = first; p < units; p += step) {
      const int64_t i = p * pixels.channels + c;
      const T g = add(widen(dy[i]), read(x, i), read(y, i), read(residual, i), channel, state);
      if (dresidual != nullptr) dresidual[i] = round_to<S>(g);
    }
    return state;
  }
  static constexpr int kPack = Pack<S>::kCount;
  __device__ void fold_pack(int64_t, int64_t c, int64_t first, int64_t units, int64_t step,
                            State (&states)[kPack]) const {
    BRIM_UNROLL
    for (State& state : states) state = {0, 0};
    const ByPack<S> channels(gradient.by, c, pixels.channels);
    for (int64_t p = first; p < units; p += step) {
      const int64_t i = p * pixels.channels + c;
      const Pack<S> from_dy = load(dy, i), from_x = load(x, i), from_y = load(y, i),
                    from_residual = load(residual, i);
      Pack<S> made;
      ByPack<S> channel = channels;
      BRIM_UNROLL
      for (int k = 0; k < kPack; ++k, channel.next())
        made.of[k] = round_to<S>(add(widen(from_dy.of[k]), widen(from_x.of[k]), widen(from_y.of[k]),
                                     widen(from_residual.of[k]), channel, states[k]));
      if (dresidual != nullptr) made.store(dresidual + i);
    }
  }
  __device__ static Pack<S> load(const S* from, int64_t i) {
    return Pack<S>::load(from == nullptr ? from : from + i);
  }
  /// What it adds: g of an element.
  template <class Channel>
  __device__ T add(T from_dy, T from_x, T from_y, T from_residual, const Channel& channel,
                   State& state) const {
    const T g = gradient(channel, from_dy, from_x, from_y, from_residual);
    state.g += static_cast<double>(g);
    if (x != nullptr)
      state.gx =
          fma(static_cast<double>(g), static_cast<double>(from_x - channel.mean()), state.gx);
    return g;
  }
  __device__ static void join(State& state, const State& later) {
    state.g += later.g;
    state.gx += later.gx;
  }
  __device__ void finish(int64_t, int64_t c, const State& state) const {
    if (dbias.present()) dbias.write(c, static_cast<T>(state.g));
    if (mean == nullptr) return;
    const double n = pixels.count > 0 ? static_cast<double>(pixels.count) : 1;
    const T rounded = gradient.by.mean[c];
    const double sum = weight_gradient(state, mean[c], rounded, variance[c], epsilon);
    if (dweight.present()) dweight.write(c, static_cast<T>(sum));
    if (!weight.present()) return;
    const NormGradient<T> made = norm_gradient(state, sum, mean[c], rounded, variance[c],
                                               static_cast<double>(weight.read(c)), epsilon, n);
    gradient.by.slope[c] = made.slope;
    gradient.by.level[c] = made.level;
  }
  __device__ static T read(const S* from, int64_t i) {
    return from == nullptr ? T(0) : widen(from[i]);
  }
};

/// dx of dy, x, y and the residual.
template <class T, class Channel>
struct WriteGradient {
  Gradient<T> gradient;
  int64_t channels;
  bool training;

  struct Element {
    const WriteGradient& how;
    Channel channel;
    __device__ T operator()(T dy, T x, T y, T residual) const {
      T dx = channel.scale() * how.gradient(channel, dy, x, y, residual);
      if (how.training) dx += fma(x - channel.mean(), channel.slope(), channel.level());
      return dx;
    }
    __device__ void next() { channel.next(); }
  };
  __device__ Element from(int64_t i) const { return {*this, {gradient.by, i, channels}}; }
};

template <class S>
int64_t backward_scratch(const KernelCall& call, const BatchNormAttributes&) {
  const Pixels pixels(call.in[0]);
  ScratchCursor cursor(nullptr);
  Coefficients<Compute<S>>(cursor, pixels.channels);
  take_partial<GradientSums<S>>(cursor, pixels.plan());
  return cursor.used();
}

template <class S>
void write_dx(const KernelCall& call, const BatchNormAttributes& by,
              Gradient<Compute<S>> gradient) {
  const View &dy = call.in[0], &dresidual = call.out[3];
  const S *from = dy.as<S>(), *y = call.in[6].as<S>(), *residual = call.in[7].as<S>();
  if (dresidual.present) {  // it has gone through the activation already
    gradient.activation = Activation::none;
    from = dresidual.as<S>();
    y = residual = nullptr;
  }
  const S* x = call.in[1].as<S>();
  S* dx = call.out[0].as<S>();
  const int64_t channels = Pixels(dy).channels;
  choose_coefficients<S>(channels, {dx, from, x, y, residual}, [&]<class Channel>() {
    map_from(call, dy.numel(), WriteGradient<Compute<S>, Channel>{gradient, channels, by.training},
             "batch_norm_backward", dx, from, x, y, residual);
  });
}

template <class S>
void backward(const KernelCall& call, const BatchNormAttributes& by) {
  using T = Compute<S>;
  const Pixels pixels(call.in[0]);
  const View &x = call.in[1], &weight = call.in[2], &mean = call.in[3], &variance = call.in[4];
  const View &y = call.in[6], &residual = call.in[7];
  ScratchCursor cursor(call.scratch);
  const Coefficients<T> coefficients(cursor, pixels.channels);
  auto* partial = take_partial<GradientSums<S>>(cursor, pixels.plan());
  for_each_element(call, pixels.channels,
                   SetCoefficients<S>{coefficients, Values<S>(weight), Values<S>(call.in[5]),
                                      mean.as<double>(), variance.as<double>(), by.epsilon},
                   "batch_norm_backward");
  const bool from_y = y.present && by.activation != Activation::hardswish;
  const Gradient<T> gradient{coefficients, by.activation, from_y, residual.present};
  if (call.out[1].present || call.out[2].present || call.out[3].present ||
      (call.out[0].present && by.training))
    reduce_columns<S>(
        "batch_norm_backward", call, pixels.plan(),
        {call.in[0].as<S>(), x.as<S>(), y.as<S>(), residual.as<S>(), call.out[3].as<S>()},
        GradientSums<S>{gradient, call.in[0].as<S>(), x.as<S>(), y.as<S>(), residual.as<S>(),
                        pixels, mean.as<double>(), variance.as<double>(), Values<S>(weight),
                        by.epsilon, Values<S>(call.out[1]), Values<S>(call.out[2]),
                        call.out[3].as<S>()},
        partial);
  if (call.out[0].present) write_dx<S>(call, by, gradient);
}

/// dresidual is read back: a half has it exactly where the activation passes dy or nothing.
template <class S>
bool backward_suits(const KernelCall& call, const BatchNormAttributes& by) {
  return !is_half<S> || by.activation != Activation::hardswish || !call.out[3].present;
}

template <class S>
void register_for() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  constexpr Dtype kDtype = dtype_of<S>;
  register_kernel(kernel::batch_norm, kCuda, kDtype, normalize<S>, normalize_scratch<S>);
  register_kernel(kernel::batch_norm_backward, kCuda, kDtype, backward<S>, backward_scratch<S>,
                  backward_suits<S>);
}

}  // namespace

void register_batch_norm() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
