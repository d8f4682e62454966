// How a loss over many samples becomes the result, by PyTorch's names: an option of
// `cross_entropy`. `mean` for training; `sum` to add up over batches of different sizes, as
// evaluation does; `none` to weigh samples one by one. For axes there are `sum` and `mean`.
#pragma once

#include <cstdint>

namespace brim {

enum class Reduction : uint8_t {
  mean,  ///< a scalar: the sum over the samples that count, divided by their number
  sum,   ///< a scalar
  none,  ///< one value per sample
};

}  // namespace brim
