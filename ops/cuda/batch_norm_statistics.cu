// The mean and variance of each channel, and what running ones make of them.
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/batch_norm.h"
#include "brim/ops/cuda/batch_norm.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/norm_formula.h"

namespace brim::cuda {
namespace {

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
    const Pack<S> shifts = first < units ? Pack<S>::load_whole(x + c) : Pack<S>{};
    BRIM_UNROLL
    for (State& state : states) state = {0, 0};
    constexpr int kInFlight = 4;  // reads that are under way at a time
    const int64_t stride = step * pixels.channels;
    const S* from = x + first * pixels.channels + c;
    int64_t p = first;
    for (; p + (kInFlight - 1) * step < units; p += kInFlight * step, from += kInFlight * stride) {
      Pack<S> packs[kInFlight];
      BRIM_UNROLL
      for (int i = 0; i < kInFlight; ++i) packs[i] = Pack<S>::load_whole(from + i * stride);
      BRIM_UNROLL
      for (int i = 0; i < kInFlight; ++i) add(packs[i], shifts, states);
    }
    for (; p < units; p += step, from += stride) add(Pack<S>::load_whole(from), shifts, states);
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
  register_kernel(kernel::batch_norm_statistics, DeviceType::cuda, dtype_of<S>, statistics<S>,
                  statistics_scratch<S>);
  register_kernel(kernel::running_statistics, DeviceType::cuda, dtype_of<S>, running_statistics<S>);
}

}  // namespace

void register_batch_norm_statistics() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
