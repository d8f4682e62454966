#include "brim/ops/cross_entropy.h"

#include <cmath>
#include <limits>

#include "brim/base/parallel.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/cpu/softmax_lines.h"

namespace brim::cpu {
namespace {

struct Rows {
  explicit Rows(const KernelCall& call, size_t logits)
      : classes(call.in[logits].shape.back()),
        count(call.in[logits + 1].numel()),
        labels(call.in[logits + 1].as<int64_t>()) {}
  int64_t grain() const { return 4096 / classes + 1; }
  /// Rows that are not ignored.
  int64_t counted(int64_t ignore) const {
    return count - std::count(labels, labels + count, ignore);
  }

  int64_t classes, count;
  const int64_t* labels;
};

void check_labels(const Rows& rows, int64_t ignore) {
  for (int64_t i = 0; i < rows.count; ++i) {
    int64_t label = rows.labels[i];
    expect<ValueError>(label == ignore || (label >= 0 && label < rows.classes),
                       kernel::cross_entropy.name,
                       "expected labels in [0, {}), got {} at position {}", rows.classes, label, i);
  }
}

int64_t loss_scratch(const KernelCall& call, const CrossEntropyOptions&) {
  ScratchCursor scratch(nullptr);
  scratch.take<double>(call.in[1].numel());
  return scratch.used();
}

template <class T>
double row_loss(const T* x, int64_t classes, int64_t label, double log_sum, double smoothing) {
  double loss = (1 - smoothing) * (log_sum - static_cast<double>(x[label]));
  if (smoothing == 0) return loss;
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += log_sum - static_cast<double>(x[c]);
  return loss + smoothing / static_cast<double>(classes) * sum;
}

template <class T>
void cross_entropy(const KernelCall& call, const CrossEntropyOptions& options) {
  Rows rows(call, 0);
  check_labels(rows, options.ignore_index);
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
      losses[i] = rows.labels[i] == options.ignore_index
                      ? 0
                      : row_loss(x, rows.classes, rows.labels[i], log_sum, options.label_smoothing);
    }
  });
  T* loss = call.out[0].as<T>();
  if (options.reduction == Reduction::none) {
    for (int64_t i = 0; i < rows.count; ++i) loss[i] = static_cast<T>(losses[i]);
    return;
  }
  double total = 0;
  for (int64_t i = 0; i < rows.count; ++i) total += losses[i];
  if (options.reduction == Reduction::mean)
    total /= static_cast<double>(rows.counted(options.ignore_index));
  *loss = static_cast<T>(total);
}

// dx[c] = g * (p[c] - (c == label) * (1 - s) - s / C), with the loss's gradient g per row.
template <class T>
void row_gradient(const T* x, T* dx, int64_t classes, int64_t label, double log_sum, double g,
                  double smoothing) {
  double even = smoothing / static_cast<double>(classes);
  for (int64_t c = 0; c < classes; ++c) {
    auto p = static_cast<double>(std::exp(static_cast<T>(static_cast<double>(x[c]) - log_sum)));
    double target = even + (c == label ? 1 - smoothing : 0.0);
    dx[c] = static_cast<T>(g * (p - target));
  }
}

template <class T>
void cross_entropy_backward(const KernelCall& call, const CrossEntropyOptions& options) {
  Rows rows(call, 1);
  const T *g = call.in[0].as<T>(), *logits = call.in[1].as<T>();
  const double* log_sums = call.in[3].as<double>();
  T* dlogits = call.out[0].as<T>();
  bool each = options.reduction == Reduction::none;
  double share = options.reduction == Reduction::mean
                     ? 1 / static_cast<double>(rows.counted(options.ignore_index))
                     : 1;
  parallel_for(rows.count, rows.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* dx = dlogits + i * rows.classes;
      if (rows.labels[i] == options.ignore_index)
        std::fill_n(dx, rows.classes, T(0));
      else
        row_gradient(logits + i * rows.classes, dx, rows.classes, rows.labels[i], log_sums[i],
                     static_cast<double>(each ? g[i] : g[0]) * share, options.label_smoothing);
    }
  });
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
