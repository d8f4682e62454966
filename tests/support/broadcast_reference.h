// Plain loops for ops that broadcast: the `OpSample::reference` of `add` and `mul`. Shares no code
// with ops/broadcast.h, and finds each index anew, so it is for small tensors only. The shapes must
// go together: nothing is checked. For sums over axes see sum_reference.h.
#pragma once

#include <vector>

#include "brim/core/tensor.h"

namespace brim::testing {

/// The index in a contiguous tensor of `shape` behind element `element` of `to`, by NumPy's rules.
inline size_t broadcast_index(size_t element, const Shape& to, const Shape& shape) {
  auto rest = static_cast<int64_t>(element);
  int64_t index = 0, stride = 1;
  for (int i = 1; i <= shape.size(); ++i) {
    int64_t along = rest % to[to.size() - i];
    rest /= to[to.size() - i];
    int64_t size = shape[shape.size() - i];
    index += (size == 1 ? 0 : along) * stride;
    stride *= size;
  }
  return static_cast<size_t>(index);
}

/// f(a, b) for each pair of elements, in double.
template <class F>
Tensor broadcast_reference(const Tensor& a, const Tensor& b, const F& f) {
  Shape shape = Dims::filled(std::max(a.dim(), b.dim()), 1);
  for (int i = 1; i <= shape.size(); ++i) {
    int64_t& size = shape[shape.size() - i];
    if (i <= a.dim()) size = a.size(-i);
    if (i <= b.dim() && size == 1) size = b.size(-i);
  }
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  std::vector<double> z(static_cast<size_t>(numel(shape)));
  for (size_t i = 0; i < z.size(); ++i)
    z[i] = f(x[broadcast_index(i, shape, a.shape())], y[broadcast_index(i, shape, b.shape())]);
  return from_vector(z, shape);
}

}  // namespace brim::testing
