// Lines along an axis of a contiguous tensor, for kernels that reduce along it: a line's elements
// lie `inner` apart. Lines side by side are taken together, so that memory is read in order.
// Softmax, log_softmax and cross entropy share it: exponentials are in T, their sums in double. For
// plain sums over axes there is `kernel::sum`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "brim/base/parallel.h"
#include "brim/core/shape.h"

namespace brim::cpu {

/// Lines taken together; kernels keep as many values on the stack.
inline constexpr int64_t kLines = 32;

/// Calls `body(at, lines, length, step)` for groups of lines, in parallel: element j of line i is
/// at + j * step + i. Lines of neighbouring elements (step 1) come alone.
template <class Body>
void for_lines(const Shape& shape, int axis, const Body& body) {
  int64_t length = shape[axis], inner = 1, total = numel(shape);
  if (total == 0) return;
  for (int i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  int64_t outer = total / (length * inner), groups = (inner + kLines - 1) / kLines;
  int64_t grain = 4096 / (length * std::min(inner, kLines)) + 1;
  parallel_for(outer * groups, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t first = i % groups * kLines;
      body(i / groups * length * inner + first, std::min(kLines, inner - first), length, inner);
    }
  });
}

/// most[i] = the largest element of line i. NaN is passed over: it shows in the sum.
template <class T>
void line_maxima(const T* x, int64_t lines, int64_t length, int64_t step, T* most) {
  std::copy_n(x, lines, most);
  for (int64_t j = 1; j < length; ++j)
    for (int64_t i = 0; i < lines; ++i) most[i] = std::max(most[i], x[j * step + i]);
}

/// log_sum[i] = log(sum over line i of exp(x)), with `most` taken out of the exponentials.
template <class T>
void line_log_sums(const T* x, int64_t lines, int64_t length, int64_t step, const T* most,
                   double* log_sum) {
  std::fill_n(log_sum, lines, 0.0);
  for (int64_t j = 0; j < length; ++j)
    for (int64_t i = 0; i < lines; ++i)
      log_sum[i] += static_cast<double>(std::exp(x[j * step + i] - most[i]));
  for (int64_t i = 0; i < lines; ++i)
    log_sum[i] = static_cast<double>(most[i]) + std::log(log_sum[i]);
}

}  // namespace brim::cpu
