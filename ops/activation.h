// Activations that an op can apply to its result before it is written; a call of their own reads
// and writes every element once more. `batch_norm` takes one, and so do `nn::BatchNorm2d` and
// `nn::ConvBn` over it. Behind any other op call `relu`, `relu6` or `hardswish`. With a residual
// hardswish keeps one tensor more than the others: see `batch_norm`.
#pragma once

#include <cstdint>
#include <string_view>

namespace brim {

enum class Activation : uint8_t {
  none,
  relu,       ///< max(x, 0)
  relu6,      ///< min(max(x, 0), 6)
  hardswish,  ///< x * min(max(x + 3, 0), 6) / 6
};

constexpr std::string_view to_string(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::relu6:
      return "relu6";
    case Activation::hardswish:
      return "hardswish";
  }
  return "?";
}

}  // namespace brim
