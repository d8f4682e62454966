// Activations that an op can apply to its result before it is written; a call of their own reads
// and writes every element once more. `batch_norm` takes one, and so do `nn::BatchNorm2d` and
// `nn::ConvBn` over it. Behind any other op call `relu` or `relu6`.
#pragma once

#include <cstdint>
#include <string_view>

namespace brim {

enum class Activation : uint8_t {
  none,
  relu,   ///< max(x, 0)
  relu6,  ///< min(max(x, 0), 6)
};

constexpr std::string_view to_string(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::relu6:
      return "relu6";
  }
  return "?";
}

}  // namespace brim
