#include "brim/budget/recipe.h"

#include <fmt/format.h>

#include "brim/nn/creation.h"
#include "brim/ops/cast.h"
#include "brim/ops/operators.h"
#include "brim/train/input.h"
#include "brim/train/training_loss.h"

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
  return training_loss(model, {batch["images"], batch["labels"]}, {});
}

Tensor classification_score(nn::Module& model, const Batch& batch) {
  const Tensor logits = model(prepare_input(batch["images"], {}));
  return cast(logits.argmax(1) == batch["labels"], Dtype::float32);
}

std::shared_ptr<nn::Module> make_model(const Recipe& recipe) {
  std::shared_ptr<nn::Module> model = recipe.model();
  expect<ValueError>(model != nullptr, "recipe", "its function for the model made none");
  const Device device = nn::creation_options().device;
  auto require_on_device = [&](const nn::NamedTensor& named) {
    expect<DeviceError>(named.tensor.device() == device, "recipe",
                        "made '{}' of its model on {} instead of {}: make the model inside of the "
                        "function, and leave the device to nn::CreationScope",
                        named.name, named.tensor.device(), device);
  };
  for (const nn::NamedTensor& named : model->named_parameters()) require_on_device(named);
  for (const nn::NamedTensor& named : model->named_buffers()) require_on_device(named);
  return model;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Recipe& recipe, nn::Module& model) {
  std::unique_ptr<optim::Optimizer> optimizer = recipe.optimizer(model);
  expect<ValueError>(optimizer != nullptr, "recipe", "its function for the optimizer made none");
  return optimizer;
}

}  // namespace brim
