#include "brim/budget/recipe.h"

#include <fmt/format.h>

#include "brim/ops/cross_entropy.h"
#include "brim/train/input.h"

namespace brim {

const Tensor& Batch::operator[](std::string_view name) const {
  std::string names;
  for (size_t i = 0; i < described_.size(); ++i) {
    if (described_[i].name == name) return tensors_[i];
    names += fmt::format("{}{}", names.empty() ? "" : ", ", described_[i].name);
  }
  raise<ValueError>("batch", "no tensor is called '{}'; there are: {}", name, names);
}

std::vector<BatchTensor> image_batch(int size) {
  return {{"images", {size, size, 3}, Dtype::uint8}, {"labels", {}, Dtype::int64}};
}

Tensor classification_loss(nn::Module& model, const Batch& batch) {
  return cross_entropy(model(prepare_input(batch["images"], {})), batch["labels"]);
}

}  // namespace brim
