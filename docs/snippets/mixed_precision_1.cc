// Of mixed_precision.md: what a half loses, a step in mixed precision, and one that overflows.
#include <fmt/core.h>

#include <cmath>

#include "brim/brim.h"

using namespace brim;

namespace {

struct Net final : nn::Module {
  nn::Linear first{8, 32}, last{32, 4};
  Net() {
    register_modules({{"first", first}, {"last", last}});
    nn::initialize(*this, /*seed=*/1);
  }
  Tensor forward(Tensor x) override { return last(relu(first(std::move(x)))); }
};

// [master]
/// A hundred steps of 0.001 from 1.
double walked(Dtype dtype) {
  Tensor weight = ones({1}, {.dtype = dtype});
  const Tensor step = full({1}, 1e-3, {.dtype = dtype});
  for (int i = 0; i < 100; ++i) weight = add(weight, step);
  return weight.item<double>();
}

bool master_weights_matter() {
  return walked(Dtype::bfloat16) == 1 && std::abs(walked(Dtype::float32) - 1.1) < 1e-4;
}
// [/master]

bool casts_what_products_read() {
  // [autocast]
  Net net;
  const Tensor x = ones({2, 8});
  Tensor y;
  {
    Autocast autocast(Dtype::bfloat16);
    y = net(x);
  }
  backward(sum(cast(y, Dtype::float32)));
  // [/autocast]
  const Tensor weight = net.tensor("first.weight");
  return y.dtype() == Dtype::bfloat16 && weight.dtype() == Dtype::float32 &&
         weight.grad().dtype() == Dtype::float32;
}

bool skips_and_says_where() {
  Net net;
  optim::Sgd sgd(net.named_parameters(), {.momentum = 0.9});
  const Tensor images = uniform({16, 8}, -1, 1, RandomKey{1});
  const Tensor labels = zeros({16}, {.dtype = Dtype::int64});

  // [scaling]
  optim::LossScaler scaler({.initial = 0x1p24});
  TrainStep step(net, sgd, {.precision = Dtype::float16, .scaler = &scaler});
  for (int i = 0; i < 20; ++i) {
    double loss = step.run(/*rate=*/0.1, [&] { return cross_entropy(net(images), labels); });
    if (const auto* skipped = std::get_if<Skipped>(&step.outcome()))
      fmt::print("step {}, loss {:.2f}, is skipped at scale {}: {}\n", skipped->step, loss,
                 skipped->scale, skipped->text);
  }
  // [/scaling]
  fmt::print("{} applied, {} skipped, scale {}\n", step.updates(), step.skipped(), scaler.scale());
  return step.skipped() > 0 && step.updates() > 10;
}

}  // namespace

int main() {
  return master_weights_matter() && casts_what_products_read() && skips_and_says_where() ? 0 : 1;
}
