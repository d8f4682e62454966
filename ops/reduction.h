// How a loss over many samples becomes the result, by PyTorch's names: an option of every loss.
// `mean` for training; `sum` to add up over batches of different sizes, as evaluation does; `none`
// to weigh samples one by one. For axes there are `sum` and `mean`.
#pragma once

#include <cstdint>

namespace brim {

enum class Reduction : uint8_t {
  mean,        ///< a scalar: the sum over what counts, divided by its number (or weight)
  sum,         ///< a scalar
  none,        ///< one value for each sample or element
  batch_mean,  ///< a scalar: the sum divided by the size of axis 0
};

}  // namespace brim
