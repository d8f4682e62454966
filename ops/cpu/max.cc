#include "brim/ops/max.h"

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/ops/reduced_axes.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

constexpr int64_t kColumns = 512;  // maxima that a task holds on its stack
constexpr int64_t kGrain = 16384;  // elements that repay a second thread

// The first of the largest, or the first NaN.
template <class T>
bool wins(T value, T best) {
  return (value > best) | ((value != value) & (best == best));
}

/// Where the results go; either may be null.
template <class T>
struct Winners {
  T* value;
  int64_t* index;

  void set(int64_t at, T best, int64_t from) const {
    if (value != nullptr) value[at] = best;
    if (index != nullptr) index[at] = from;
  }
};

// The inner group goes: stretches of `inner` elements for each result.
template <class T>
void max_of_rows(const ReducedAxes& axes, const T* x, const Winners<T>& to) {
  int64_t work = axes.reduced.count * axes.inner;
  parallel_for(axes.kept.count, kGrain / work + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = x + axes.kept.offset(i);
      T best = *from;
      int64_t at = 0;
      for (int64_t unit = 0; unit < axes.reduced.count; ++unit) {
        const T* row = from + axes.reduced.offset(unit);
        for (int64_t k = 0; k < axes.inner; ++k)
          if (wins(row[k], best)) {
            best = row[k];
            at = unit * axes.inner + k;
          }
      }
      to.set(i, best, at);
    }
  });
}

// The inner group is kept: neighbouring results are found side by side.
template <class T>
void max_of_columns(const ReducedAxes& axes, const T* x, const Winners<T>& to) {
  int64_t tiles = (axes.inner + kColumns - 1) / kColumns;
  int64_t work = axes.reduced.count * std::min(axes.inner, kColumns);
  parallel_for(axes.kept.count * tiles, kGrain / work + 1, [&](int64_t begin, int64_t end) {
    T best[kColumns];
    int64_t at[kColumns];
    for (int64_t task = begin; task < end; ++task) {
      int64_t kept = task / tiles, column = task % tiles * kColumns;
      int64_t count = std::min(kColumns, axes.inner - column);
      const T* from = x + axes.kept.offset(kept) + column;
      std::copy_n(from, count, best);
      std::fill_n(at, count, 0);
      for (int64_t unit = 1; unit < axes.reduced.count; ++unit) {
        const T* row = from + axes.reduced.offset(unit);
        for (int64_t k = 0; k < count; ++k) {
          bool better = wins(row[k], best[k]);
          best[k] = better ? row[k] : best[k];
          at[k] = better ? unit : at[k];
        }
      }
      for (int64_t k = 0; k < count; ++k) to.set(kept * axes.inner + column + k, best[k], at[k]);
    }
  });
}

template <class T>
void max_kernel(const KernelCall& call, const NoAttributes&) {
  const View &x = call.in[0], &y = call.out[0], &index = call.out[1];
  if (x.numel() == 0) return;  // and neither has y elements
  ReducedAxes axes(x.shape, y.present ? y.shape : index.shape);
  Winners<T> to{y.present ? y.as<T>() : nullptr, index.present ? index.as<int64_t>() : nullptr};
  if (axes.inner_reduced)
    max_of_rows(axes, x.as<T>(), to);
  else
    max_of_columns(axes, x.as<T>(), to);
}

template <class T>
void max_backward_kernel(const KernelCall& call, const NoAttributes&) {
  const View &dy = call.in[0], &dx = call.out[0];
  const auto* index = call.in[1].as<int64_t>();
  const T* from = dy.as<T>();
  T* to = dx.as<T>();
  parallel_for(dx.numel(), kGrain,
               [=](int64_t begin, int64_t end) { std::fill(to + begin, to + end, T(0)); });
  if (dx.numel() == 0) return;
  ReducedAxes axes(dx.shape, dy.shape);
  // No two results have a winner in common: the order does not matter.
  int64_t columns = axes.inner_reduced ? 1 : axes.inner;
  int64_t stretch = axes.inner_reduced ? axes.inner : 1;
  parallel_for(dy.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      to[axes.kept.offset(i / columns) + i % columns + axes.reduced.offset(index[i] / stretch) +
         index[i] % stretch] = from[i];
  });
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::max, DeviceType::cpu, dtype, max_kernel<T>);
  register_kernel(kernel::max_backward, DeviceType::cpu, dtype, max_backward_kernel<T>);
}

}  // namespace

void register_max() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
