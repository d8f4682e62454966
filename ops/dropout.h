// Dropout: zeroes elements at random while training. Srivastava et al., "Dropout: A Simple Way to
// Prevent Neural Networks from Overfitting", JMLR 2014; scaled at training time ("inverted"). It
// does not know the model's mode: `nn::Dropout` follows it, here `training` says so. It drops
// elements, not whole channels or paths. Random addresses: autograd/random_context.h.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/launch.h"

namespace brim {

struct DropoutOptions {
  double p = 0.5;        ///< chance of each element to become 0; in [0, 1]
  bool training = true;  ///< else the result is x itself
};

/// y = 0 with chance p, else x / (1 - p), each element by itself; any shape, floating dtypes.
/// Element e of sample i (axis 0) draws `random_bits(key, first_sample + i, e)`: the mask is a
/// function of the random address alone, so nothing is saved and backward draws it again.
/// Throws `ValueError` for a p outside [0, 1].
Tensor dropout(Tensor x, DropoutOptions options = {}, Where where = Where::current());

namespace kernel {
struct DropoutAttributes {
  double p = 0.5;
  RandomKey key;
  uint64_t first_sample = 0;
  LiveKey live = {};  ///< in place of `key`, where the update is recorded
};
/// in: x or dy; out: y or dx, which may be the input. Contiguous.
inline constexpr Kernel<DropoutAttributes> dropout{"dropout"};
}  // namespace kernel

}  // namespace brim
