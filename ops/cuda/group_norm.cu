// Group norm, and layer norm, which is the case of one pixel and one group: sums per group
// (groups.cuh), coefficients per group in scratch, then one pass that writes.
#include <cmath>

#include "brim/core/cuda/compute.cuh"
#include "brim/ops/cuda/groups.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/group_norm.h"
#include "brim/ops/norm_formula.h"

namespace brim::cuda {
namespace {

using kernel::GroupNormAttributes;

/// Which channel and which group an element is of.
struct Place {
  int64_t channel, group;
  __device__ Place(const Groups& groups, int64_t i) {
    const int64_t row = i / groups.channels;
    channel = i - row * groups.channels;
    group = row / groups.pixels * groups.groups + channel / groups.width;
  }
};

/// xhat of each group.
template <class T>
struct Coefficients {
  NormGroup<T>* of;

  Coefficients(ScratchCursor& cursor, const Groups& groups)
      : of(cursor.take<NormGroup<T>>(groups.count())) {}
  __device__ T normalized(T x, int64_t group) const {
    const NormGroup<T> by = of[group];
    return fma(x - by.mean, by.inverse, by.shift);
  }
};

/// Sums of d = x - shift and of its squares, in double; the shift is the group's first value.
template <class S>
struct Statistics {
  using T = Compute<S>;
  struct State {
    double sum, square;
  };
  bool any;
  double n, epsilon;
  const S* x;
  Coefficients<T> to;
  double *means, *inverses;  // or null

  __device__ void add(State& state, const Group& group, int64_t i, int64_t) const {
    const double d = value(i) - value(group.start);
    state.sum += d;
    state.square = fma(d, d, state.square);
  }
  __device__ static void join(State& state, const State& later) {
    state.sum += later.sum;
    state.square += later.square;
  }
  __device__ void finish(const Group& group, const State& state) const {
    const double off = state.sum / n, around = (state.square - state.sum * off) / n;
    const double mean = any ? value(group.start) + off : 0;
    const double inverse = 1 / std::sqrt((around > 0 ? around : 0) + epsilon);
    to.of[group.number] = norm_group<T>(mean, inverse);
    if (means == nullptr) return;
    means[group.number] = mean;
    inverses[group.number] = inverse;
  }
  __device__ double value(int64_t i) const { return static_cast<double>(widen(x[i])); }
};

template <class S>
struct Normalize {
  using T = Compute<S>;
  Groups groups;
  Coefficients<T> by;
  const S* x;
  Values<S> weight, bias;
  S* y;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0];
    const Place place(groups, i);
    y[i] = round_to<S>(fma(by.normalized(widen(x[i]), place.group),
                           weight.present() ? weight.read(place.channel) : T(1),
                           bias.present() ? bias.read(place.channel) : T(0)));
  }
};

template <class S>
int64_t forward_scratch(const KernelCall& call, const GroupNormAttributes& by) {
  const Groups groups(call.in[0], by.groups);
  ScratchCursor cursor(nullptr);
  Coefficients<Compute<S>>(cursor, groups);
  GroupStates<Statistics<S>>(cursor, groups);
  return cursor.used();
}

template <class S>
void group_norm(const KernelCall& call, const GroupNormAttributes& by) {
  const Groups groups(call.in[0], by.groups);
  const S* x = call.in[0].as<S>();
  ScratchCursor cursor(call.scratch);
  const Coefficients<Compute<S>> coefficients(cursor, groups);
  const GroupStates<Statistics<S>> states(cursor, groups);
  reduce_groups("group_norm", call, groups,
                Statistics<S>{!groups.is_empty(), groups.size(), by.epsilon, x, coefficients,
                              call.out[1].as<double>(), call.out[2].as<double>()},
                states);
  for_each_element(call, call.in[0].numel(),
                   Normalize<S>{groups, coefficients, x, Values<S>(call.in[1]),
                                Values<S>(call.in[2]), call.out[0].as<S>()},
                   "group_norm");
}

template <class T>
struct SetCoefficients {
  Coefficients<T> to;
  const double *means, *inverses;
  __device__ void operator()(const Offsets<1>& at) const {
    to.of[at.of[0]] = norm_group<T>(means[at.of[0]], inverses[at.of[0]]);
  }
};

/// g = dy * weight, and what of it the statistics carry: per group its mean, and that of g * xhat.
template <class S>
struct InputGradient {
  using T = Compute<S>;
  struct State {
    double g, gx;
  };
  double n;
  Coefficients<T> by;
  const S *dy, *x;
  Values<S> weight;
  T *level, *slope;

  __device__ T gradient(int64_t i, int64_t c) const {
    const T g = widen(dy[i]);
    return weight.present() ? g * weight.read(c) : g;
  }
  __device__ T xhat(int64_t i, int64_t group) const { return by.normalized(widen(x[i]), group); }
  __device__ void add(State& state, const Group& group, int64_t i, int64_t c) const {
    const T g = gradient(i, c);
    state.g += static_cast<double>(g);
    state.gx += static_cast<double>(g * xhat(i, group.number));
  }
  __device__ static void join(State& state, const State& later) {
    state.g += later.g;
    state.gx += later.gx;
  }
  __device__ void finish(const Group& group, const State& state) const {
    level[group.number] = static_cast<T>(state.g / n);
    slope[group.number] = static_cast<T>(state.gx / n);
  }
};

template <class S>
struct WriteGradient {
  Groups groups;
  InputGradient<S> from;
  S* dx;  // which may be dy
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0];
    const Place place(groups, i);
    dx[i] = round_to<S>(from.by.of[place.group].inverse *
                        (from.gradient(i, place.channel) - from.level[place.group] -
                         from.xhat(i, place.group) * from.slope[place.group]));
  }
};

/// Sums over all pixels of a channel: dbias, and with x dweight.
template <class S>
struct ParameterGradients {
  using T = Compute<S>;
  struct State {
    double bias, weight;
  };
  Groups groups;
  Coefficients<T> by;
  const S *dy, *x;
  Values<S> dweight, dbias;

  __device__ State fold(int64_t, int64_t c, int64_t first, int64_t units, int64_t step) const {
    State state{0, 0};
    for (int64_t row = first; row < units; row += step) {
      const int64_t i = row * groups.channels + c;
      const T g = widen(dy[i]);
      state.bias += static_cast<double>(g);
      if (dweight.present())
        state.weight += static_cast<double>(g * by.normalized(widen(x[i]), Place(groups, i).group));
    }
    return state;
  }
  __device__ static void join(State& state, const State& later) {
    state.bias += later.bias;
    state.weight += later.weight;
  }
  __device__ void finish(int64_t, int64_t c, const State& state) const {
    if (dweight.present()) dweight.write(c, static_cast<T>(state.weight));
    if (dbias.present()) dbias.write(c, static_cast<T>(state.bias));
  }
};

/// Scratch of backward.
template <class S>
struct BackwardScratch {
  using T = Compute<S>;
  Coefficients<T> coefficients;
  T *level, *slope;
  GroupStates<InputGradient<S>> states;
  typename ParameterGradients<S>::State* partial;

  BackwardScratch(ScratchCursor& cursor, const Groups& groups)
      : coefficients(cursor, groups),
        level(cursor.take<T>(groups.count())),
        slope(cursor.take<T>(groups.count())),
        states(cursor, groups),
        partial(take_partial<ParameterGradients<S>>(cursor, plan(groups))) {}
  static ReducePlan plan(const Groups& groups) {
    return {1, groups.samples * groups.pixels, groups.channels};
  }
};

template <class S>
int64_t backward_scratch(const KernelCall& call, const GroupNormAttributes& by) {
  ScratchCursor cursor(nullptr);
  BackwardScratch<S>(cursor, Groups(call.in[0], by.groups));
  return cursor.used();
}

template <class S>
void group_norm_backward(const KernelCall& call, const GroupNormAttributes& by) {
  const Groups groups(call.in[0], by.groups);
  const S *dy = call.in[0].as<S>(), *x = call.in[1].as<S>();
  ScratchCursor cursor(call.scratch);
  const BackwardScratch<S> scratch(cursor, groups);
  if (x != nullptr)
    for_each_element(call, groups.count(),
                     SetCoefficients<Compute<S>>{scratch.coefficients, call.in[3].as<double>(),
                                                 call.in[4].as<double>()},
                     "group_norm_backward");
  // First what reads dy: dx may take its place.
  if (call.out[1].present || call.out[2].present)
    reduce("group_norm_backward", call, scratch.plan(groups),
           ParameterGradients<S>{groups, scratch.coefficients, dy, x, Values<S>(call.out[1]),
                                 Values<S>(call.out[2])},
           scratch.partial);
  if (!call.out[0].present) return;
  const InputGradient<S> gradient{groups.size(),         scratch.coefficients, dy,           x,
                                  Values<S>(call.in[2]), scratch.level,        scratch.slope};
  reduce_groups("group_norm_backward", call, groups, gradient, scratch.states);
  for_each_element(call, call.out[0].numel(),
                   WriteGradient<S>{groups, gradient, call.out[0].as<S>()}, "group_norm_backward");
}

template <class S>
void register_for() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  register_kernel(kernel::group_norm, kCuda, dtype_of<S>, group_norm<S>, forward_scratch<S>);
  register_kernel(kernel::group_norm_backward, kCuda, dtype_of<S>, group_norm_backward<S>,
                  backward_scratch<S>);
}

}  // namespace

void register_group_norm() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
