#include "brim/ops/cross_entropy.h"

#include <cmath>
#include <limits>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/cpu/softmax_lines.h"

namespace brim::cpu {
namespace {

using kernel::CrossEntropyAttributes;

// w[c], 1 where there are none.
template <class T>
struct ClassWeights {
  explicit ClassWeights(const View& view) : values(view.present ? view.as<T>() : nullptr) {}
  double operator[](int64_t c) const {
    return values == nullptr ? 1 : static_cast<double>(values[c]);
  }

  const T* values;
};

// What the classes of a row weigh, w[c] q[c] with the smoothed target q: `at(i, c)`; their sum over
// c; what the row counts in the mean; whether it counts at all. Two sources of q:

template <class T>
struct Labels {
  Labels(const View& logits, const View& target, const View& weight,
         const CrossEntropyAttributes& by)
      : labels(target.as<int64_t>()),
        weights(weight),
        ignored(by.ignore_index),
        own(1 - by.label_smoothing),
        even(by.label_smoothing / static_cast<double>(logits.shape.back())) {
    auto classes = logits.shape.back();
    check(target.numel(), classes);
    double all = 0;
    if (even != 0)  // else a weight of NaN that no label has would count
      for (int64_t c = 0; c < classes; ++c) all += weights[c];
    even_sum = even * all;
  }

  void check(int64_t rows, int64_t classes) const {
    for (int64_t i = 0; i < rows; ++i)
      expect<ValueError>(labels[i] == ignored || (labels[i] >= 0 && labels[i] < classes),
                         kernel::cross_entropy.name,
                         "expected labels in [0, {}), got {} at position {}", classes, labels[i],
                         i);
  }
  bool counts(int64_t i) const { return labels[i] != ignored; }
  double share(int64_t i) const { return counts(i) ? weights[labels[i]] : 0; }
  double at(int64_t i, int64_t c) const {
    return weights[c] * (even + (c == labels[i] ? own : 0.0));
  }
  double sum(int64_t i) const { return own * weights[labels[i]] + even_sum; }
  // Without smoothing the loss is that of one class.
  template <class Term>
  double total(int64_t i, int64_t classes, const Term& term) const {
    double one = own * weights[labels[i]] * term(labels[i]);
    if (even == 0) return one;
    double all = 0;
    for (int64_t c = 0; c < classes; ++c) all += weights[c] * term(c);
    return one + even * all;
  }

  const int64_t* labels;
  ClassWeights<T> weights;
  int64_t ignored;
  double own, even, even_sum;
};

template <class T>
struct Distributions {
  Distributions(const View& logits, const View& target, const View& weight,
                const CrossEntropyAttributes& by)
      : target(target.as<T>()),
        weights(weight),
        classes(logits.shape.back()),
        own(1 - by.label_smoothing),
        even(by.label_smoothing / static_cast<double>(classes)) {}

  bool counts(int64_t) const { return true; }
  double share(int64_t) const { return 1; }
  double at(int64_t i, int64_t c) const {
    return weights[c] * (even + own * static_cast<double>(target[i * classes + c]));
  }
  double sum(int64_t i) const {
    return total(i, classes, [](int64_t) { return 1.0; });
  }
  template <class Term>
  double total(int64_t i, int64_t, const Term& term) const {
    double all = 0;
    for (int64_t c = 0; c < classes; ++c) all += at(i, c) * term(c);
    return all;
  }

  const T* target;
  ClassWeights<T> weights;
  int64_t classes;
  double own, even;
};

struct Rows {
  explicit Rows(const View& logits)
      : classes(logits.shape.back()), count(logits.numel() / classes) {}
  int64_t grain() const { return 4096 / classes + 1; }

  int64_t classes, count;
};

// What the sum of the losses is divided by.
template <class Target>
double divisor(const Target& target, const View& logits, Reduction reduction) {
  double total = 1;
  if (reduction == Reduction::batch_mean) total = static_cast<double>(logits.shape[0]);
  if (reduction == Reduction::mean) {
    total = 0;
    for (int64_t i = 0; i < Rows(logits).count; ++i) total += target.share(i);
  }
  return total;
}

int64_t loss_scratch(const KernelCall& call, const CrossEntropyAttributes&) {
  ScratchCursor scratch(nullptr);
  scratch.take<double>(Rows(call.in[0]).count);
  return scratch.used();
}

template <class T, class Target>
void loss_with(const KernelCall& call, const CrossEntropyAttributes& by) {
  Rows rows(call.in[0]);
  Target target(call.in[0], call.in[1], call.in[2], by);
  const T* logits = call.in[0].as<T>();
  double* log_sums = call.out[1].present ? call.out[1].as<double>() : nullptr;
  double* losses = ScratchCursor(call.scratch).take<double>(rows.count);
  parallel_for(rows.count, rows.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* x = logits + i * rows.classes;
      T most;
      double log_sum;
      line_maxima(x, 1, rows.classes, 1, &most);
      line_log_sums(x, 1, rows.classes, 1, &most, &log_sum);
      if (log_sums != nullptr) log_sums[i] = log_sum;
      auto surprise = [=](int64_t c) { return log_sum - static_cast<double>(x[c]); };
      losses[i] = target.counts(i) ? target.total(i, rows.classes, surprise) : 0;
    }
  });
  T* loss = call.out[0].as<T>();
  if (by.reduction == Reduction::none) {
    for (int64_t i = 0; i < rows.count; ++i) loss[i] = static_cast<T>(losses[i]);
    return;
  }
  double total = 0;
  for (int64_t i = 0; i < rows.count; ++i) total += losses[i];
  *loss = static_cast<T>(total / divisor(target, call.in[0], by.reduction));
}

// dx[c] = g * (p[c] * sum over all classes of w q - w[c] q[c]), with the loss's gradient g per row.
template <class T, class Target>
void row_gradient(const Target& target, int64_t i, const T* x, T* dx, int64_t classes,
                  double log_sum, double g) {
  double sum = target.sum(i);
  for (int64_t c = 0; c < classes; ++c) {
    auto p = static_cast<double>(std::exp(static_cast<T>(static_cast<double>(x[c]) - log_sum)));
    dx[c] = static_cast<T>(g * (p * sum - target.at(i, c)));
  }
}

// dq[c] = -g * w[c] * log p[c] of a distribution, before it is smoothed.
template <class T>
void target_gradient(const Distributions<T>& target, const T* x, T* dq, double log_sum, double g) {
  for (int64_t c = 0; c < target.classes; ++c)
    dq[c] =
        static_cast<T>(g * target.own * target.weights[c] * (log_sum - static_cast<double>(x[c])));
}

template <class T, class Target>
void backward_with(const KernelCall& call, const CrossEntropyAttributes& by) {
  const View &logits = call.in[1], &dlogits = call.out[0], &dtarget = call.out[1];
  Rows rows(logits);
  Target target(logits, call.in[2], call.in[3], by);
  const T* g = call.in[0].as<T>();
  const double* log_sums = call.in[4].as<double>();
  bool each = by.reduction == Reduction::none;
  double share = 1 / divisor(target, logits, by.reduction);
  parallel_for(rows.count, rows.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t at = i * rows.classes;
      const T* x = logits.as<T>() + at;
      double scale = static_cast<double>(each ? g[i] : g[0]) * share;
      if (dlogits.present && target.counts(i))
        row_gradient(target, i, x, dlogits.as<T>() + at, rows.classes, log_sums[i], scale);
      else if (dlogits.present)
        std::fill_n(dlogits.as<T>() + at, rows.classes, T(0));
      if constexpr (std::is_same_v<Target, Distributions<T>>)
        if (dtarget.present) target_gradient(target, x, dtarget.as<T>() + at, log_sums[i], scale);
    }
  });
}

template <class T>
void cross_entropy(const KernelCall& call, const CrossEntropyAttributes& by) {
  bool labels = call.in[1].dtype == Dtype::int64;
  labels ? loss_with<T, Labels<T>>(call, by) : loss_with<T, Distributions<T>>(call, by);
}

template <class T>
void cross_entropy_backward(const KernelCall& call, const CrossEntropyAttributes& by) {
  bool labels = call.in[2].dtype == Dtype::int64;
  labels ? backward_with<T, Labels<T>>(call, by) : backward_with<T, Distributions<T>>(call, by);
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::cross_entropy, DeviceType::cpu, dtype, cross_entropy<T>, loss_scratch);
  register_kernel(kernel::cross_entropy_backward, DeviceType::cpu, dtype,
                  cross_entropy_backward<T>);
}

}  // namespace

void register_cross_entropy() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
