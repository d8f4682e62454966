// Ranges of indices along axes: Python's x[begin:end:step], and x[:, ::2, ::2]. Forward copies
// nothing, but the view keeps all bytes of x alive. Backward fills a gradient of x's whole size for
// each call, so taking a tensor apart into many is costly, and so is an axis a call. Its opposites:
// `concat` and `pad`.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// As in Python: negative positions count from the end, and positions beyond it are cut to it.
struct SliceOptions {
  int64_t begin = 0;
  int64_t end = std::numeric_limits<int64_t>::max();  ///< first index that is left out
  int64_t step = 1;                                   ///< at least 1
};

/// The elements of x whose index along `axis` (from the end when negative) is begin, begin + step,
/// ... below end; possibly none. Always a view. Any dtype. Saves nothing; backward writes the
/// gradient into zeros.
///   slice(x, 0, {.end = 8})        the first eight images
///   slice(x, -1, {.begin = -3})    the last three channels
/// Throws `ShapeError` for an axis that is out of range, `ValueError` for a step below 1.
Tensor slice(Tensor x, int axis, SliceOptions options, Where where = Where::current());

/// What to take along an axis.
struct AxisSlice {
  int axis = 0;
  SliceOptions range = {};
};
/// One after the other, as one op. Throws as for one axis.
///   slice(x, {{1, {.step = 2}}, {2, {.step = 2}}})    every other pixel of NHWC images
Tensor slice(Tensor x, std::vector<AxisSlice> slices, Where where = Where::current());

}  // namespace brim
