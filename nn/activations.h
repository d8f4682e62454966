// Activations as layers, for a `Sequential`, under PyTorch's names; in a `forward` of your own,
// call the function of the same name in ops/. Behind a batch norm give relu, relu6 and hardswish to
// that call, `{.activation = Activation::relu}`, which spares a pass over memory and a buffer.
// There is no `inplace`: the result is a tensor of its own.
#pragma once

#include "brim/nn/module.h"
#include "brim/ops/gelu.h"
#include "brim/ops/hardsigmoid.h"
#include "brim/ops/hardswish.h"
#include "brim/ops/leaky_relu.h"
#include "brim/ops/relu.h"
#include "brim/ops/relu6.h"
#include "brim/ops/sigmoid.h"
#include "brim/ops/silu.h"
#include "brim/ops/tanh.h"

namespace brim::nn {

class ReLU final : public Module {
 public:
  Tensor forward(Tensor x) override { return brim::relu(std::move(x), where()); }
  std::string_view kind() const override { return "ReLU"; }
};

class ReLU6 final : public Module {
 public:
  Tensor forward(Tensor x) override { return brim::relu6(std::move(x), where()); }
  std::string_view kind() const override { return "ReLU6"; }
};

class Hardsigmoid final : public Module {
 public:
  Tensor forward(Tensor x) override { return brim::hardsigmoid(std::move(x), where()); }
  std::string_view kind() const override { return "Hardsigmoid"; }
};

class Hardswish final : public Module {
 public:
  Tensor forward(Tensor x) override { return brim::hardswish(std::move(x), where()); }
  std::string_view kind() const override { return "Hardswish"; }
};

class Sigmoid final : public Module {
 public:
  Tensor forward(Tensor x) override { return brim::sigmoid(std::move(x), where()); }
  std::string_view kind() const override { return "Sigmoid"; }
};

class SiLU final : public Module {
 public:
  Tensor forward(Tensor x) override { return brim::silu(std::move(x), where()); }
  std::string_view kind() const override { return "SiLU"; }
};

class Tanh final : public Module {
 public:
  Tensor forward(Tensor x) override { return brim::tanh(std::move(x), where()); }
  std::string_view kind() const override { return "Tanh"; }
};

class GELU final : public Module {
 public:
  explicit GELU(GeluOptions options = {}) : options_(options) {}
  Tensor forward(Tensor x) override { return brim::gelu(std::move(x), options_, where()); }
  std::string_view kind() const override { return "GELU"; }

 private:
  GeluOptions options_;
};

class LeakyReLU final : public Module {
 public:
  explicit LeakyReLU(LeakyReluOptions options = {}) : options_(options) {}
  Tensor forward(Tensor x) override { return brim::leaky_relu(std::move(x), options_, where()); }
  std::string_view kind() const override { return "LeakyReLU"; }

 private:
  LeakyReluOptions options_;
};

}  // namespace brim::nn
