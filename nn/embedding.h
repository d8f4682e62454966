// A table of learnt rows, one for each word (or other number), as a layer: `brim::embedding` with a
// weight of its own, laid out and initialised as that of `torch.nn.Embedding`. Its input is whole
// numbers, int64 or int32, so it comes first in a model. For vectors that are already there use
// nn/linear.h.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/embedding.h"

namespace brim::nn {

struct EmbeddingLayerOptions {
  /// A row that stands for no word: it gets no gradient, and the default rule sets it to 0.
  std::optional<int64_t> padding_index;
  /// By default normal with deviation 1, as PyTorch has it.
  Init weight_init = nullptr;
};

/// [...] -> [...,width]. Parameter: weight [rows,width].
class Embedding final : public Module {
 public:
  /// Throws `ValueError` for sizes below 1, or a padding index outside [0, rows).
  Embedding(int64_t rows, int64_t width, const EmbeddingLayerOptions& options = {});
  Tensor forward(Tensor indices) override;
  std::string_view kind() const override { return "Embedding"; }

  Tensor weight;

 private:
  EmbeddingOptions options_;
};

}  // namespace brim::nn
