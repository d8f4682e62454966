// What is to be trained, whatever the bytes: how the model and its optimizer are made, what a batch
// is, and the loss of one. Any model, any number of inputs, any loss:
//
//   Recipe recipe{
//       .model = [] { return std::make_shared<Net>(); },
//       .optimizer = [](nn::Module& m) { return optim::sgd(m, {.momentum = 0.9}); },
//       .batch = {{"x", {8}}, {"y", {1}}},
//       .loss = [](nn::Module& m, const Batch& b) { return mse_loss(m(b["x"]), b["y"]); },
//   };
//
// `plan_training` (budget/plan_training.h) calls model, optimizer and loss without bytes, and a
// `Training` with them, so they must do the same every time: shapes may depend on nothing but the
// recipe, and neither may values (those of a file come by `values`).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brim/core/tensor.h"
#include "brim/nn/module.h"
#include "brim/optim/optimizer.h"

namespace brim {

/// One of the tensors of a batch, by the shape of a single example: {224, 224, 3}, or {} for a
/// number.
struct BatchTensor {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::float32;

  int64_t example_bytes() const { return numel(shape) * size_of(dtype); }
};

/// Some examples on the device, by the names that the recipe has: each tensor is [examples, ...].
class Batch {
 public:
  Batch(const std::vector<BatchTensor>& described, std::vector<Tensor> tensors)
      : described_(described), tensors_(std::move(tensors)) {}

  /// Throws `ValueError` for a name that the recipe does not have, with those that it has.
  const Tensor& operator[](std::string_view name) const;
  int64_t examples() const { return tensors_.front().size(0); }

 private:
  const std::vector<BatchTensor>& described_;
  std::vector<Tensor> tensors_;
};

/// "images", uint8 [size, size, 3], and "labels", int64 []: what an image classifier trains on.
std::vector<BatchTensor> image_batch(int size = 224);

/// Mean cross entropy of the model's logits for "images", normalised as for ImageNet, with
/// "labels": `training_loss` (train/training_loss.h).
Tensor classification_loss(nn::Module& model, const Batch& batch);

/// 1 for each image whose label has the largest logit, else 0.
Tensor classification_score(nn::Module& model, const Batch& batch);

struct Recipe {
  std::function<std::shared_ptr<nn::Module>()> model;
  std::function<std::unique_ptr<optim::Optimizer>(nn::Module&)> optimizer;
  /// Gives the model its values where a training begins, from a file say; by default those that
  /// the model made itself, or its modules' initial values. What it allocates is not counted.
  std::function<void(nn::Module&)> values = {};
  std::vector<BatchTensor> batch = image_batch();
  /// A scalar: the mean over the examples of the batch.
  std::function<Tensor(nn::Module&, const Batch&)> loss = classification_loss;
  /// What `Training::evaluate` averages: a number for each example, [examples]. The plan then has
  /// room for evaluations, between updates.
  std::function<Tensor(nn::Module&, const Batch&)> score = {};
  /// The seed for initial values, where the model has none, and for the numbers that ops draw.
  uint64_t seed = 0;
  optim::ClipOptions clip = {};
  /// float32 or bfloat16: products in halves, parameters in float32
  /// (`TrainStepOptions::precision`).
  Dtype precision = Dtype::float32;
  /// As `TrainStepOptions::gradients`, and what parameters are kept in (`RehearsalOptions`):
  /// float32 or bfloat16.
  Dtype gradients = Dtype::float32, parameters = Dtype::float32;
  /// As `TrainStepOptions::fused_update`: for updates in one part, which cannot be undone then.
  bool fused_update = false;
};

/// The recipe's model on the device of the `nn::CreationScope`, and its optimizer. Throw
/// `ValueError` where there is none, `DeviceError` where a parameter or a buffer is on another
/// device.
std::shared_ptr<nn::Module> make_model(const Recipe& recipe);
std::unique_ptr<optim::Optimizer> make_optimizer(const Recipe& recipe, nn::Module& model);

}  // namespace brim
