// Walks several strided buffers of one shape in step: axes that lie behind each other in every
// buffer are merged, then rows are handed out in parallel. For kernels on views that may
// broadcast (stride 0) or be permuted; contiguous buffers arrive as a single row.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "brim/base/parallel.h"
#include "brim/core/shape.h"

namespace brim {

/// Element offsets or steps, one for each of N buffers.
template <int N>
using Steps = std::array<int64_t, static_cast<size_t>(N)>;

template <int N>
class StridedLoop {
 public:
  /// `strides[i]` belongs to buffer i and has as many entries as `shape`; put the output first:
  /// the loop is ordered by its strides.
  StridedLoop(const Shape& shape, const std::array<Strides, static_cast<size_t>(N)>& strides) {
    count_ = numel(shape);
    // Outer to inner in decreasing stride of the first buffer, so that it is written in order.
    Dims order;
    for (int axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] != 1) order.push_back(axis);
    for (int i = 1; i < order.size(); ++i)
      for (int j = i; j > 0 && stride(strides[0], order[j]) > stride(strides[0], order[j - 1]); --j)
        std::swap(order[j], order[j - 1]);
    for (int64_t axis : order)
      add_axis(shape[static_cast<int>(axis)], strides, static_cast<int>(axis));
    if (rank_ == 0) add_axis_raw(1, {});
  }

  /// The merged axes, outer to inner, at least one: for devices that walk them in a way of their
  /// own.
  int rank() const { return rank_; }
  int64_t size(int axis) const { return sizes_[static_cast<size_t>(axis)]; }
  const Steps<N>& steps(int axis) const { return steps_[static_cast<size_t>(axis)]; }
  int64_t count() const { return count_; }

  /// Calls `row(offsets, count, steps)` for stretches along the innermost merged axis.
  template <class Row>
  void run(const Row& row) const {
    if (count_ == 0) return;
    int64_t inner = sizes_[static_cast<size_t>(rank_ - 1)], rows = count_ / inner;
    const Steps<N>& steps = steps_[static_cast<size_t>(rank_ - 1)];
    if (rows == 1) {
      parallel_for(inner, kGrain, [&](int64_t begin, int64_t end) {
        Steps<N> at{};
        for (size_t k = 0; k < at.size(); ++k) at[k] = begin * steps[k];
        row(at, end - begin, steps);
      });
      return;
    }
    // Rows along the axis around them follow each other by its steps.
    const auto around = static_cast<size_t>(rank_ - 2);
    parallel_for(rows, std::max<int64_t>(kGrain / inner, 1), [&](int64_t begin, int64_t end) {
      while (begin < end) {
        Steps<N> at = offsets_of(begin);
        const int64_t left = sizes_[around] - begin % sizes_[around];
        for (const int64_t stop = std::min(begin + left, end); begin < stop; ++begin) {
          row(at, inner, steps);
          for (size_t k = 0; k < at.size(); ++k) at[k] += steps_[around][k];
        }
      }
    });
  }

 private:
  static constexpr int64_t kGrain = 16384;  // elements that repay a second thread

  static int64_t stride(const Strides& strides, int64_t axis) {
    return strides[static_cast<int>(axis)];
  }
  void add_axis(int64_t size, const std::array<Strides, static_cast<size_t>(N)>& strides,
                int axis) {
    Steps<N> steps{};
    for (size_t k = 0; k < steps.size(); ++k) steps[k] = strides[k][axis];
    if (rank_ > 0) {
      auto last = static_cast<size_t>(rank_ - 1);
      bool merges = true;
      for (size_t k = 0; k < steps.size(); ++k) merges &= steps_[last][k] == steps[k] * size;
      if (merges) {
        sizes_[last] *= size;
        steps_[last] = steps;
        return;
      }
    }
    add_axis_raw(size, steps);
  }
  void add_axis_raw(int64_t size, const Steps<N>& steps) {
    sizes_[static_cast<size_t>(rank_)] = size;
    steps_[static_cast<size_t>(rank_++)] = steps;
  }
  Steps<N> offsets_of(int64_t row) const {
    Steps<N> at{};
    for (int axis = rank_ - 2; axis >= 0; --axis) {
      auto a = static_cast<size_t>(axis);
      int64_t index = row % sizes_[a];
      row /= sizes_[a];
      for (size_t k = 0; k < at.size(); ++k) at[k] += index * steps_[a][k];
    }
    return at;
  }

  std::array<int64_t, Dims::kMax> sizes_{};
  std::array<Steps<N>, Dims::kMax> steps_{};
  int rank_ = 0;
  int64_t count_ = 0;
};

/// Strides of a view of `shape` with strides `strides`, broadcast to `to`: 0 along new axes.
inline Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& to) {
  Strides result = Dims::filled(to.size(), 0);
  for (int i = 1; i <= shape.size(); ++i)
    if (shape[shape.size() - i] != 1) result[to.size() - i] = strides[strides.size() - i];
  return result;
}

}  // namespace brim
