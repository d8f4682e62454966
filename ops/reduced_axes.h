// The axes of a reduction of a contiguous tensor, merged: neighbours that are all kept or all
// reduced become one group, axes of size 1 vanish. The last group is the inner loop, the others are
// walked. For kernels that reduce over any axes (sum, max); where only the last axis goes, a loop
// over rows will do. Not for tensors without elements.
#pragma once

#include <array>
#include <cstdint>

#include "brim/base/host_device.h"
#include "brim/core/shape.h"

namespace brim {

/// Groups of axes, walked in row-major order.
struct AxisWalk {
  std::array<int64_t, Dims::kMax> size{}, stride{};
  size_t rank = 0;
  int64_t count = 1;

  void add_outer(int64_t n, int64_t step) {
    size[rank] = n;
    stride[rank++] = step;
    count *= n;
  }
  BRIM_HOST_DEVICE int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (size_t k = 0; k + 1 < rank; ++k) {  // groups were added inner first
      at += index % size[k] * stride[k];
      index /= size[k];
    }
    return rank == 0 ? 0 : at + index * stride[rank - 1];
  }
};

struct ReducedAxes {
  AxisWalk kept, reduced;  ///< without the inner group
  int64_t inner = 1;       ///< elements of the inner group
  bool inner_reduced = true;

  /// y has the rank of x, and size 1 along the axes that go.
  ReducedAxes(const Shape& x, const Shape& y) {
    int64_t stride = 1, size = 1, start = 1;
    bool any = false, goes = true, first = true;
    auto close = [&] {
      if (!any) return;
      if (first) {
        inner = size;
        inner_reduced = goes;
      } else {
        (goes ? reduced : kept).add_outer(size, start);
      }
      first = false;
    };
    for (int axis = x.size() - 1; axis >= 0; --axis) {
      if (x[axis] == 1) continue;
      bool next_goes = y[axis] == 1;
      if (any && next_goes == goes) {
        size *= x[axis];
      } else {
        close();
        any = true;
        goes = next_goes;
        size = x[axis];
        start = stride;
      }
      stride *= x[axis];
    }
    close();
  }
};

}  // namespace brim
