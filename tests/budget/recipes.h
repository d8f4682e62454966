// Recipes for tests of the one call, a regression on two inputs, a class for every pixel, and a
// classifier of images, and random examples for them. What is learnt from these does not matter.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brim/base/random.h"
#include "brim/budget/example_source.h"
#include "brim/budget/recipe.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/models/unet.h"
#include "brim/ops/ops.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"

namespace brim::testing {

inline constexpr int64_t kMiB = 1 << 20;

/// A model of two inputs: a price of sizes and of a place.
struct TwoInputs final : nn::Module {
  TwoInputs() {
    register_modules({{"size", size}, {"place", place}, {"hidden", hidden}, {"price", price}});
  }
  Tensor forward(Tensor sizes, Tensor places) override {
    return price(relu(hidden(relu(size(sizes) + place(places)))));
  }

  nn::Linear size{2, 64}, place{4, 64}, hidden{64, 64}, price{64, 1};
};

inline std::unique_ptr<optim::Optimizer> adamw(nn::Module& model) { return optim::adamw(model); }

inline Recipe regression() {
  return {.model = [] { return std::make_shared<TwoInputs>(); },
          .optimizer = adamw,
          .batch = {{"sizes", {2}}, {"places", {4}}, {"price", {1}}},
          .loss =
              [](nn::Module& model, const Batch& batch) {
                return mse_loss(model(batch["sizes"], batch["places"]), batch["price"]);
              }};
}

/// Scores of every pixel of grey images.
inline Recipe segmentation(int64_t side = 32) {
  return {.model =
              [] {
                return std::make_shared<nn::UNet>(
                    nn::UNetOptions{.classes = 2, .in = 1, .channels = 8, .depth = 2});
              },
          .optimizer = adamw,
          .batch = {{"images", {side, side, 1}}, {"masks", {side, side}, Dtype::int64}},
          .loss =
              [](nn::Module& model, const Batch& batch) {
                return cross_entropy(model(batch["images"]), batch["masks"]);
              }};
}

inline Recipe classifier(const std::string& name, int size) {
  return {.model = [name] { return nn::make_model(name, {.classes = 10}); },
          .optimizer = [](nn::Module& model) { return optim::sgd(model, {.momentum = 0.9}); },
          .batch = image_batch(size)};
}

/// Random examples for any recipe: bytes of images, labels below 2, numbers in [-1, 1).
class RandomSource final : public ExampleSource {
 public:
  RandomSource(const Recipe& recipe, int64_t batch, int64_t batches)
      : batch_(batch), batches_(batches) {
    RandomStream random(RandomKey{7});
    for (const BatchTensor& tensor : recipe.batch) {
      auto& bytes = bytes_.emplace_back(static_cast<size_t>(batch * tensor.example_bytes()));
      const size_t each = static_cast<size_t>(size_of(tensor.dtype));
      for (size_t at = 0; at < bytes.size(); at += each) {
        const auto write = [&](auto value) { std::memcpy(&bytes[at], &value, sizeof value); };
        if (tensor.dtype == Dtype::float32) write(random.uniform(-1, 1));
        if (tensor.dtype == Dtype::uint8) write(static_cast<uint8_t>(random.below(256)));
        if (tensor.dtype == Dtype::int64) write(static_cast<int64_t>(random.below(2)));
      }
    }
  }
  void start_epoch(int64_t) override { given_ = 0; }
  std::optional<HostExamples> next() override {
    if (given_++ == batches_) return {};
    HostExamples examples{.examples = batch_};
    for (const auto& bytes : bytes_) examples.tensors.emplace_back(bytes);
    return examples;
  }

 private:
  int64_t batch_, batches_, given_ = 0;
  std::vector<std::vector<std::byte>> bytes_;
};

}  // namespace brim::testing
