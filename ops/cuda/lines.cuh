// Lines along an axis of a contiguous tensor, a warp each: what ops/cpu/softmax_lines.h is on the
// CPU. Exponentials are in what T is computed in, their sums in double, joined in one order.
#pragma once

#include <algorithm>

#include "brim/base/cuda/launch.cuh"
#include "brim/core/cuda/compute.cuh"
#include "brim/core/launch.h"

namespace brim::cuda {

inline constexpr unsigned kLanes = 32, kWarps = 8;  // of a block

/// Where a line is, and which of its elements are this lane's: `lane`, `lane` + 32, ...
struct Line {
  int64_t number, at, length, step;
  unsigned lane;
};

/// The lines of a tensor along an axis, as a kernel's argument.
struct Lines {
  int64_t count = 0, length = 0, step = 1;

  Lines(const Shape& shape, int axis) : length(shape[axis]) {
    for (int i = axis + 1; i < shape.size(); ++i) step *= shape[i];
    if (length > 0) count = numel(shape) / length;
  }
  unsigned blocks() const {
    return static_cast<unsigned>(std::min<int64_t>((count + kWarps - 1) / kWarps, 1 << 16));
  }
};

/// Every lane gets what all of them together make of `value`; `join` is commutative.
template <class T, class Join>
__device__ T of_all_lanes(T value, const Join& join) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = join(value, __shfl_xor_sync(0xffffffff, value, distance));
  return value;
}

struct Plus {
  __device__ double operator()(double a, double b) const { return a + b; }
};

/// The sum of term(j) over the elements j of a line.
template <class Term>
__device__ double line_sum(const Line& line, const Term& term) {
  double sum = 0;
  for (int64_t j = line.lane; j < line.length; j += kLanes) sum += static_cast<double>(term(j));
  return of_all_lanes(sum, Plus());
}

/// The largest element of a line. NaN is passed over: it shows in the sum.
template <class S>
__device__ Compute<S> line_max(const Line& line, const S* x) {
  using T = Compute<S>;
  T most = widen(x[line.at]);
  for (int64_t j = line.lane; j < line.length; j += kLanes) {
    const T value = widen(x[line.at + j * line.step]);
    most = most < value ? value : most;
  }
  return of_all_lanes(most, [](T a, T b) { return a < b || a != a ? b : a; });
}

/// body(line) for every line: all lanes of a warp together.
template <class Body>
__global__ void lines_kernel(Lines lines, Body body) {
  const int64_t warps = int64_t{gridDim.x} * kWarps;
  for (int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.y; i < lines.count; i += warps) {
    const int64_t at = i / lines.step * lines.length * lines.step + i % lines.step;
    body(Line{i, at, lines.length, lines.step, threadIdx.x});
  }
}

template <class Body>
void for_lines(const char* name, const KernelCall& call, const Lines& lines, const Body& body) {
  if (lines.count == 0) return;
  launch_kernel(name, lines_kernel<Body>, {lines.blocks(), {kLanes, kWarps}}, call.stream, lines,
                body);
}

}  // namespace brim::cuda
