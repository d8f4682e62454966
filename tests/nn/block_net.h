// The body of a small network of all that recomputation and offloading must get right:
// convolutions, batch norm with a residual and activations, dropout. A test gives it a head.
#pragma once

#include "brim/nn/layers.h"

namespace brim::testing {

/// [N,H,W,3] -> [N,H,W,8]. Who derives from it registers the head and initialises it all.
struct BlockNet : nn::Module {
  BlockNet() {
    register_modules({{"conv1", conv1},
                      {"bn1", bn1},
                      {"conv2", conv2},
                      {"bn2", bn2},
                      {"conv3", conv3},
                      {"bn3", bn3},
                      {"drop", drop}});
  }
  Tensor block(Tensor x) {
    Tensor y = bn2(conv2(x), {.activation = Activation::hardswish});
    return bn3(conv3(std::move(y)), {.residual = std::move(x), .activation = Activation::relu});
  }
  Tensor stem(Tensor x) { return drop(bn1(conv1(std::move(x)), {.activation = Activation::relu})); }

  nn::Conv2d conv1{3, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{8};
  nn::Conv2d conv2{8, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn2{8};
  nn::Conv2d conv3{8, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn3{8};
  nn::Dropout drop{0.3};
};

inline Tensor images() { return uniform({4, 16, 16, 3}, -1, 1, {1}); }

}  // namespace brim::testing
