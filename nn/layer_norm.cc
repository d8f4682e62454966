#include "brim/nn/layer_norm.h"

#include <algorithm>

namespace brim::nn {

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options)
    : normalized_shape_(normalized_shape), options_(options) {
  bool positive = std::ranges::all_of(normalized_shape, [](int64_t size) { return size > 0; });
  expect<ValueError>(!normalized_shape.empty() && positive, "layer_norm",
                     "expected sizes of at least 1 to normalize over, got {}", normalized_shape);
  if (!options.affine) return;
  register_parameter("weight", weight, normalized_shape, init::constant(1));
  register_parameter("bias", bias, normalized_shape, init::constant(0));
}

Tensor LayerNorm::forward(Tensor x) {
  return layer_norm(std::move(x), normalized_shape_, weight, bias, {.epsilon = options_.epsilon},
                    where());
}

}  // namespace brim::nn
