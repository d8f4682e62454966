// Batch norm with residual and activation: sums per channel (reduce.cuh), then one pass that
// writes. Coefficients per channel lie in scratch; the formula and what backward takes the
// derivative of the activation at are those of ops/cpu/batch_norm.h.
#include <cmath>

#include "brim/core/cuda/strided.cuh"
#include "brim/core/cuda/vector.cuh"
#include "brim/ops/activation_functors.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/cuda/channels.cuh"
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
template <class S>
struct Statistics {
  struct State {
    double sum, square;
  };
  Pixels pixels;
  const S* x;
  double *mean, *variance;

  __device__ State fold(int64_t, int64_t c, int64_t first, int64_t units, int64_t step) const {
    State state{0, 0};
    for (int64_t p = first; p < units; p += step) {
      const double d = value(p * pixels.channels + c) - value(c);
      state.sum += d;
      state.square = fma(d, d, state.square);
    }
    return state;
  }
  static constexpr int kPack = Pack<S>::kCount;
  __device__ void fold_pack(int64_t, int64_t c, int64_t first, int64_t units, int64_t step,
                            State (&states)[kPack]) const {
    const Pack<S> shifts = first < units ? Pack<S>::load(x + c) : Pack<S>{};
    BRIM_UNROLL
    for (State& state : states) state = {0, 0};
    constexpr int kInFlight = 4;  // reads that are under way at a time
    for (int64_t p = first; p < units; p += kInFlight * step) {
      Pack<S> packs[kInFlight];
      BRIM_UNROLL
      for (int i = 0; i < kInFlight; ++i)
        if (p + i * step < units)
          packs[i] = Pack<S>::load(x + (p + i * step) * pixels.channels + c);
      BRIM_UNROLL
      for (int i = 0; i < kInFlight; ++i)
        if (p + i * step < units) add(packs[i], shifts, states);
    }
  }
  __device__ static void add(const Pack<S>& pack, const Pack<S>& shifts, State (&states)[kPack]) {
    BRIM_UNROLL
    for (int k = 0; k < kPack; ++k) {
      const double d =
          static_cast<double>(widen(pack.of[k])) - static_cast<double>(widen(shifts.of[k]));
      states[k].sum += d;
      states[k].square = fma(d, d, states[k].square);
    }
  }
  __device__ static void join(State& state, const State& later) {
    state.sum += later.sum;
    state.square += later.square;
  }
  __device__ void finish(int64_t, int64_t c, const State& state) const {
    const bool any = pixels.count > 0;
    const double n = any ? static_cast<double>(pixels.count) : 1;
    const double around = (state.square - state.sum * (state.sum / n)) / n;
    mean[c] = any ? value(c) + state.sum / n : 0;
    variance[c] = around > 0 ? around : 0;
  }
  __device__ double value(int64_t i) const { return static_cast<double>(widen(x[i])); }
};

template <class S>
int64_t statistics_scratch(const KernelCall& call, const NoAttributes&) {
  ScratchCursor cursor(nullptr);
  take_partial<Statistics<S>>(cursor, Pixels(call.in[0]).plan());
  return cursor.used();
}

template <class S>
void statistics(const KernelCall& call, const NoAttributes&) {
  const Pixels pixels(call.in[0]);
  ScratchCursor cursor(call.scratch);
  const S* x = call.in[0].as<S>();
  reduce_columns<S>("batch_norm_statistics", call, pixels.plan(), {x},
                    Statistics<S>{pixels, x, call.out[0].as<double>(), call.out[1].as<double>()},
                    take_partial<Statistics<S>>(cursor, pixels.plan()));
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
};

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

/// Coefficients of an element's channel, and then of the next one's. One at a time, wherever the
/// element lies.
template <class T>
struct OneByOne {
  const Coefficients<T>& by;
  int64_t c, channels;

  __device__ OneByOne(const Coefficients<T>& by, int64_t i, int64_t channels)
      : by(by), c(i % channels), channels(channels) {}
  __device__ void next() {
    if (++c == channels) c = 0;
  }
  __device__ T mean() const { return by.mean[c]; }
  __device__ T scale() const { return by.scale[c]; }
  __device__ T shift() const { return by.shift[c]; }
  __device__ T slope() const { return by.slope[c]; }
  __device__ T level() const { return by.level[c]; }
};

/// Those of a whole pack of S, read at once: for the first of its elements, where packs fill the
/// channels. What a kernel may use is read, also where nobody wrote it and it is not used then.
template <class S>
struct ByPack {
  using T = Compute<S>;
  using Numbers = Stretch<T, Pack<S>::kCount>;
  Numbers means, scales, shifts, slopes, levels;
  int at = 0;

  __device__ ByPack(const Coefficients<T>& by, int64_t i, int64_t channels) {
    const int64_t c = i % channels;
    means = Numbers::load(by.mean + c);
    scales = Numbers::load(by.scale + c);
    shifts = Numbers::load(by.shift + c);
    slopes = Numbers::load(by.slope + c);
    levels = Numbers::load(by.level + c);
  }
  __device__ void next() { ++at; }
  __device__ T mean() const { return means.of[at]; }
  __device__ T scale() const { return scales.of[at]; }
  __device__ T shift() const { return shifts.of[at]; }
  __device__ T slope() const { return slopes.of[at]; }
  __device__ T level() const { return levels.of[at]; }
};

/// Calls `body<ByPack<S>>()` where that may be, else `body<OneByOne<...>>()`, with the same
/// results.
template <class S, class Body>
void choose_coefficients(int64_t channels, std::initializer_list<const S*> buffers,
                         const Body& body) {
  if (packs_fill<S>(channels, buffers))
    body.template operator()<ByPack<S>>();
  else
    body.template operator()<OneByOne<Compute<S>>>();
}

/// Before the activation. Backward finds the same bits with the same formula.
template <class T, class Channel>
__device__ T normalized(T x, const Channel& channel) {
  return fma(x - channel.mean(), channel.scale(), channel.shift());
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
struct MoveRunning {
  kernel::RunningStatisticsAttributes by;
  const double *mean, *variance;
  const S* start;
  S *running_mean, *running_var;

  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t c = at.of[0];
    Compute<S> moved_mean = widen(running_mean[c]), moved_var = widen(running_var[c]);
    if (by.before > 0)
      pool_running(by, mean[c], variance[c], static_cast<double>(widen(start[c])), moved_mean,
                   moved_var);
    else
      move_running(by, mean[c], variance[c], moved_mean, moved_var);
    running_mean[c] = round_to<S>(moved_mean);
    running_var[c] = round_to<S>(moved_var);
  }
};

template <class S>
void running_statistics(const KernelCall& call, const kernel::RunningStatisticsAttributes& by) {
  if (by.before > 0 && by.momentum == 0) return;
  for_each_element(call, call.out[0].numel(),
                   MoveRunning<S>{by, call.in[0].as<double>(), call.in[1].as<double>(),
                                  call.in[2].as<S>(), call.out[0].as<S>(), call.out[1].as<S>()},
                   "running_statistics");
}

template <class S>
void register_for() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  constexpr Dtype kDtype = dtype_of<S>;
  register_kernel(kernel::batch_norm_statistics, kCuda, kDtype, statistics<S>,
                  statistics_scratch<S>);
  register_kernel(kernel::batch_norm, kCuda, kDtype, normalize<S>, normalize_scratch<S>);
  register_kernel(kernel::batch_norm_backward, kCuda, kDtype, backward<S>, backward_scratch<S>,
                  backward_suits<S>);
  register_kernel(kernel::running_statistics, kCuda, kDtype, running_statistics<S>);
}

}  // namespace

void register_batch_norm() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
