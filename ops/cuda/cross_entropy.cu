// Cross entropy, a warp each row. A label outside the classes makes the loss NaN: nothing here can
// throw.
#include <cmath>
#include <limits>

#include "brim/core/cuda/compute.cuh"
#include "brim/ops/cross_entropy.h"
#include "brim/ops/cuda/lines.cuh"
#include "brim/ops/cuda/reduce.cuh"
#include "brim/ops/cuda/register.h"

namespace brim::cuda {
namespace {

using kernel::CrossEntropyAttributes;

/// What the classes of a row weigh: w[c] q[c] with the smoothed target q.
template <class S>
struct Target {
  const int64_t* labels;    // or null
  Values<S> distributions;  // else
  Values<S> weights;        // absent: all 1
  int64_t classes, ignored;
  double own, even;

  Target(const View& target, const View& weight, int64_t classes, const CrossEntropyAttributes& by)
      : labels(target.dtype == Dtype::int64 ? target.as<int64_t>() : nullptr),
        distributions(labels == nullptr ? target : View()),
        weights(weight),
        classes(classes),
        ignored(by.ignore_index),
        own(1 - by.label_smoothing),
        even(by.label_smoothing / static_cast<double>(classes)) {}

  __device__ bool counts(int64_t i) const { return labels == nullptr || labels[i] != ignored; }
  __device__ bool is_valid(int64_t i) const {
    return labels == nullptr || (labels[i] >= 0 && labels[i] < classes);
  }
  __device__ double weight(int64_t c) const {
    return weights.present() ? static_cast<double>(weights.read(c)) : 1;
  }
  /// What the row counts in the mean.
  __device__ double share(int64_t i) const {
    if (labels == nullptr) return 1;
    return counts(i) && is_valid(i) ? weight(labels[i]) : 0;
  }
  __device__ double at(int64_t i, int64_t c) const {
    const double q = labels == nullptr ? static_cast<double>(distributions.read(i * classes + c))
                                       : (c == labels[i] ? 1.0 : 0.0);
    return weight(c) * (even + own * q);
  }
  /// The sum of at(i, c) * term(c). Without smoothing the loss is that of one class.
  template <class Term>
  __device__ double total(const Line& row, const Term& term) const {
    if (!is_valid(row.number)) return std::numeric_limits<double>::quiet_NaN();
    if (labels != nullptr && even == 0)
      return own * weight(labels[row.number]) * term(labels[row.number]);
    return line_sum(row, [&](int64_t c) { return at(row.number, c) * term(c); });
  }
};

template <class S>
struct RowLoss {
  Target<S> target;
  const S* logits;
  double *log_sums, *losses;  // log_sums may be null

  __device__ void operator()(const Line& row) const {
    const S* x = logits + row.at;
    const Compute<S> most = line_max(row, logits);
    const double sum = line_sum(row, [&](int64_t c) { return std::exp(widen(x[c]) - most); });
    const double log_sum = static_cast<double>(most) + std::log(sum);
    double loss = 0;
    if (target.counts(row.number))
      loss =
          target.total(row, [&](int64_t c) { return log_sum - static_cast<double>(widen(x[c])); });
    if (row.lane != 0) return;
    losses[row.number] = loss;
    if (log_sums != nullptr) log_sums[row.number] = log_sum;
  }
};

/// The sum of the rows' losses, and what it is divided by.
template <class S>
struct Mean {
  struct State {
    double loss, share;
  };
  Target<S> target;
  const double* losses;  // or null: the divisor alone
  bool shares;           // the divisor is their sum
  double divisor;        // else
  S* loss;
  double* divided_by;

  __device__ State fold(int64_t, int64_t, int64_t first, int64_t units, int64_t step) const {
    State state{0, 0};
    for (int64_t i = first; i < units; i += step) {
      if (losses != nullptr) state.loss += losses[i];
      if (shares) state.share += target.share(i);
    }
    return state;
  }
  __device__ static void join(State& state, const State& later) {
    state.loss += later.loss;
    state.share += later.share;
  }
  __device__ void finish(int64_t, int64_t, const State& state) const {
    const double by = shares ? state.share : divisor;
    if (loss != nullptr) *loss = round_to<S>(state.loss / by);
    if (divided_by != nullptr) *divided_by = by;
  }
};

template <class S>
struct CopyLoss {
  const double* losses;
  S* loss;
  __device__ void operator()(const Line& row) const {
    if (row.lane == 0) loss[row.number] = round_to<S>(losses[row.number]);
  }
};

/// The logits' rows.
Lines rows_of(const View& logits) { return {logits.shape, logits.shape.size() - 1}; }
ReducePlan plan_of(const Lines& rows) { return {1, rows.count, 1}; }

template <class S>
Mean<S> mean_of(const Target<S>& target, const View& logits, Reduction reduction) {
  return {.target = target,
          .losses = nullptr,
          .shares = reduction == Reduction::mean,
          .divisor = reduction == Reduction::batch_mean ? static_cast<double>(logits.shape[0]) : 1,
          .loss = nullptr,
          .divided_by = nullptr};
}

template <class S>
int64_t loss_scratch(const KernelCall& call, const CrossEntropyAttributes&) {
  ScratchCursor cursor(nullptr);
  const Lines rows = rows_of(call.in[0]);
  cursor.take<double>(rows.count);
  take_partial<Mean<S>>(cursor, plan_of(rows));
  return cursor.used();
}

template <class S>
void cross_entropy(const KernelCall& call, const CrossEntropyAttributes& by) {
  const View& logits = call.in[0];
  const Lines rows = rows_of(logits);
  const Target<S> target(call.in[1], call.in[2], rows.length, by);
  ScratchCursor cursor(call.scratch);
  double* losses = cursor.take<double>(rows.count);
  auto* partial = take_partial<Mean<S>>(cursor, plan_of(rows));
  for_lines("cross_entropy", call, rows,
            RowLoss<S>{target, logits.as<S>(), call.out[1].as<double>(), losses});
  if (by.reduction == Reduction::none)
    return for_lines("cross_entropy", call, rows, CopyLoss<S>{losses, call.out[0].as<S>()});
  Mean<S> mean = mean_of(target, logits, by.reduction);
  mean.losses = losses;
  mean.loss = call.out[0].as<S>();
  reduce("cross_entropy", call, plan_of(rows), mean, partial);
}

/// dx[c] = g * (p[c] * sum over all classes of w q - w[c] q[c]), with the loss's gradient g per
/// row; dq[c] = -g * w[c] * log p[c] of a distribution, before it is smoothed.
template <class S>
struct RowGradient {
  using T = Compute<S>;
  Target<S> target;
  const S *logits, *dloss;
  bool each;  // a gradient for each row
  const double *log_sums, *divisor;
  S* dlogits;         // or null
  Values<S> dtarget;  // or absent

  __device__ void operator()(const Line& row) const {
    const int64_t i = row.number;
    const S *x = logits + row.at, zero{};
    const double scale = static_cast<double>(widen(dloss[each ? i : 0])) / *divisor;
    const double sum = target.total(row, [](int64_t) { return 1.0; });
    for (int64_t c = row.lane; c < row.length; c += kLanes) {
      const double apart = static_cast<double>(widen(x[c])) - log_sums[i];
      const auto p = static_cast<double>(std::exp(static_cast<T>(apart)));
      if (dlogits != nullptr)
        dlogits[row.at + c] =
            target.counts(i) ? round_to<S>(scale * (p * sum - target.at(i, c))) : zero;
      if (dtarget.present())
        dtarget.write(row.at + c, static_cast<T>(scale * target.own * target.weight(c) * -apart));
    }
  }
};

template <class S>
int64_t backward_scratch(const KernelCall& call, const CrossEntropyAttributes&) {
  ScratchCursor cursor(nullptr);
  cursor.take<double>(1);
  take_partial<Mean<S>>(cursor, plan_of(rows_of(call.in[1])));
  return cursor.used();
}

template <class S>
void cross_entropy_backward(const KernelCall& call, const CrossEntropyAttributes& by) {
  const View &logits = call.in[1], &dlogits = call.out[0], &dtarget = call.out[1];
  const Lines rows = rows_of(logits);
  const Target<S> target(call.in[2], call.in[3], rows.length, by);
  ScratchCursor cursor(call.scratch);
  double* divisor = cursor.take<double>(1);
  auto* partial = take_partial<Mean<S>>(cursor, plan_of(rows));
  Mean<S> mean = mean_of(target, logits, by.reduction);
  mean.divided_by = divisor;
  reduce("cross_entropy_backward", call, plan_of(rows), mean, partial);
  for_lines("cross_entropy_backward", call, rows,
            RowGradient<S>{.target = target,
                           .logits = logits.as<S>(),
                           .dloss = call.in[0].as<S>(),
                           .each = by.reduction == Reduction::none,
                           .log_sums = call.in[4].as<double>(),
                           .divisor = divisor,
                           .dlogits = dlogits.as<S>(),
                           .dtarget = Values<S>(dtarget)});
}

template <class S>
void register_for() {
  register_kernel(kernel::cross_entropy, DeviceType::cuda, dtype_of<S>, cross_entropy<S>,
                  loss_scratch<S>);
  register_kernel(kernel::cross_entropy_backward, DeviceType::cuda, dtype_of<S>,
                  cross_entropy_backward<S>, backward_scratch<S>);
}

}  // namespace

void register_cross_entropy() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
