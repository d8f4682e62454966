#include "brim/nn/embedding.h"

#include "brim/ops/slice.h"

namespace brim::nn {
namespace {

Init normal_but_for(std::optional<int64_t> row) {
  return [=](const Tensor& to, RandomKey key) {
    fill_normal(to, 1, key);
    if (row) fill(slice(to.detach(), 0, {.begin = *row, .end = *row + 1}), 0);
  };
}

}  // namespace

Embedding::Embedding(int64_t rows, int64_t width, const EmbeddingLayerOptions& options)
    : options_{options.padding_index} {
  expect<ValueError>(rows > 0 && width > 0, "embedding",
                     "expected sizes of at least 1, got {} rows of {}", rows, width);
  auto padding = options.padding_index;
  expect<ValueError>(!padding || (*padding >= 0 && *padding < rows), "embedding",
                     "expected a padding index in [0, {}), got {}", rows, padding.value_or(0));
  register_parameter("weight", weight, {rows, width},
                     options.weight_init ? options.weight_init : normal_but_for(padding));
}

Tensor Embedding::forward(Tensor indices) {
  return embedding(std::move(indices), weight, options_, where());
}

}  // namespace brim::nn
