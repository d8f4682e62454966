// Bytes of images to numbers with mean 0 and deviation 1, the first op of most models. One pass
// from uint8 to the dtype of the network: batches are loaded and moved as bytes. The constants are
// given (ImageNet's in `InputOptions`, train/input.h); for the statistics of a batch use
// `batch_norm`. For images that are floating already use `mul` and `add` with [C] tensors.
#pragma once

#include <array>
#include <vector>

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

struct NormalizeOptions {
  std::vector<float> mean, std;  ///< one per channel, of values in [0, 1]
  Dtype dtype = Dtype::float32;  ///< of the result, floating
};

/// y = (x / 255 - mean[c]) / std[c], computed as x * scale[c] + shift[c] with one rounding.
/// x: uint8 [N,H,W,C] with C up to 16; y: [N,H,W,C] of `options.dtype`. No gradient.
/// Throws `ShapeError` for another rank or number of channels, `DtypeError` for another dtype,
/// `ValueError` for a deviation that is not above 0.
Tensor normalize(Tensor x, const NormalizeOptions& options, Where where = Where::current());

namespace kernel {
struct NormalizeAttributes {
  static constexpr int kMaxChannels = 16;
  std::array<double, kMaxChannels> scale{}, shift{};
};
/// in: x, uint8 [N,H,W,C]; out: y of the same shape. Contiguous. Keyed by the output's dtype.
inline constexpr Kernel<NormalizeAttributes> normalize{.name = "normalize",
                                                       .by_rows = {.in = 0b1, .out = 0b1}};
}  // namespace kernel

}  // namespace brim
