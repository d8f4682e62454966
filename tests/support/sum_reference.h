// Plain loops for sums over axes: what `sum` and `mean` are tested against. Shares no code with
// ops/sum.h, adds one term after the other, which tolerance.h allows for, and finds each index
// anew, so it is for small tensors only. For ops of two tensors see broadcast_reference.h.
#pragma once

#include <algorithm>
#include <vector>

#include "brim/core/tensor.h"

namespace brim::testing {

/// The sum of float64 x over `axes` (none: all; counted from the front), and the number of terms.
struct SumReference {
  Tensor sum;
  int64_t terms = 1;
};

inline SumReference sum_reference(const Tensor& x, std::vector<int> axes, bool keepdim) {
  if (axes.empty())
    for (int axis = 0; axis < x.dim(); ++axis) axes.push_back(axis);
  auto goes = [&](int axis) { return std::ranges::find(axes, axis) != axes.end(); };
  SumReference result;
  Shape shape;
  for (int axis = 0; axis < x.dim(); ++axis) {
    if (goes(axis)) result.terms *= x.shape()[axis];
    if (!goes(axis)) shape.push_back(x.shape()[axis]);
    if (goes(axis) && keepdim) shape.push_back(1);
  }
  std::vector<double> values = x.to_vector<double>();
  std::vector<double> sums(static_cast<size_t>(numel(shape)), 0.0);
  for (size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0, stride = 1;
    for (int axis = x.dim() - 1; axis >= 0; --axis) {
      int64_t index = rest % x.shape()[axis];
      rest /= x.shape()[axis];
      if (goes(axis)) continue;
      at += index * stride;
      stride *= x.shape()[axis];
    }
    sums[static_cast<size_t>(at)] += values[i];
  }
  result.sum = from_vector(sums, shape);
  return result;
}

}  // namespace brim::testing
