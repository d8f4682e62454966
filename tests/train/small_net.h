// A small network with what a training step must undo, batch norm's running statistics and
// dropout's masks, and images and labels for it. [N,H,W,3] -> [N,4] for images of any size; its
// seed is fixed, so that two of them start equal. There is nothing to be learned: for that use
// `data::Shapes`, and for models as they are used `nn::make_model`.
#pragma once

#include "brim/nn/layers.h"
#include "brim/ops/cross_entropy.h"
#include "brim/ops/global_avg_pool.h"

namespace brim::testing {

struct SmallNet final : nn::Module {
  explicit SmallNet(double dropout = 0.2) : drop{dropout} {
    register_modules({{"conv1", conv1},
                      {"bn1", bn1},
                      {"conv2", conv2},
                      {"bn2", bn2},
                      {"drop", drop},
                      {"fc", fc}});
    nn::initialize(*this, /*seed=*/3);
  }
  Tensor forward(Tensor x) override {
    x = bn1(conv1(std::move(x)), {.activation = Activation::relu});
    Tensor shortcut = x;
    x = bn2(conv2(std::move(x)), {.residual = std::move(shortcut), .activation = Activation::relu});
    return fc(drop(global_avg_pool(std::move(x))));
  }

  nn::Conv2d conv1{3, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{8};
  nn::Conv2d conv2{8, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn2{8};
  nn::Dropout drop;
  nn::Linear fc{8, 4};
};

struct Problem {
  Tensor images, labels;
};

inline Problem random_problem(int64_t batch, int64_t size, int64_t classes, uint64_t seed = 1) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < batch; ++i) labels.push_back((i * 7 + 3) % classes);
  return {uniform({batch, size, size, 3}, -1, 1, RandomKey{seed}), from_vector(labels, {batch})};
}

/// The values of every parameter, buffer and optimizer state, in order.
template <class NamedTensors>
std::vector<float> values_of(const NamedTensors& tensors) {
  std::vector<float> all;
  for (const auto& named : tensors) {
    auto values = named.tensor.template to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace brim::testing
