// Borders of a constant around a tensor: PyTorch's constant `pad`, but with the entries in the
// order of the axes. It copies x; the `padding` of `conv2d` and the pooling ops does not, so use
// that where it will do. To cut a border off use `slice`. No borders that reflect or repeat.
#pragma once

#include <array>
#include <vector>

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

/// Elements to add along one axis.
struct AxisPadding {
  int64_t before = 0, after = 0;
};

struct PadOptions {
  double value = 0;
};

/// x inside a border of `options.value`; one entry of `padding` per axis of x. Any dtype.
/// Saves nothing; the gradient is a slice. Convolution and pooling pad by themselves.
///   pad(x, {{}, {1, 1}, {1, 1}, {}})    one pixel around NHWC images
/// Throws `ShapeError` for another number of entries, `ValueError` for a negative one.
Tensor pad(Tensor x, const std::vector<AxisPadding>& padding, PadOptions options = {},
           Where where = Where::current());

namespace kernel {
struct PadAttributes {
  std::array<int64_t, Dims::kMax> before{};
  double value = 0;
};
/// in: x; out: y. y[i] = x[i - before], or the value outside x. Contiguous.
inline constexpr Kernel<PadAttributes> pad{"pad"};
}  // namespace kernel

}  // namespace brim
