// Of mixed_precision.md: looking at a training's numbers, and rounding by chance.
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

bool looks() {
  Net net;
  const Tensor images = uniform({16, 8}, -1, 1, RandomKey{1});
  const Tensor labels = zeros({16}, {.dtype = Dtype::int64});
  // [watch]
  NumericsWatch watch({.every = 2});
  {
    NumericsWatch::Scope watching(&watch, /*step=*/0);
    backward(cross_entropy(net(images), labels));
    watching.keep();
  }
  const NumericsReport report = numerics_report(watch, Dtype::float16);
  for (const std::string& line : summary_of(report, watch)) fmt::print("{}\n", line);
  fmt::print("{}", table_of(report));
  // [/watch]
  return report.loss_scale > 1 && report.rows.size() == 9;
}

// [chance]
/// The mean of many weights, each after a hundred updates of 0.001 from 1, in bfloat16.
double walked_by_chance() {
  Tensor weights = ones({4096}, {.dtype = Dtype::bfloat16});
  weights.set_requires_grad();
  optim::Sgd sgd({{"weights", weights}});
  for (int i = 0; i < 100; ++i) {
    weights.set_grad(full({4096}, -1, {.dtype = Dtype::bfloat16}));
    sgd.step(/*rate=*/1e-3);
  }
  return mean(cast(weights, Dtype::float32)).item<double>();
}

bool chance_makes_up_for_rounding() { return std::abs(walked_by_chance() - 1.1) < 0.005; }
// [/chance]

}  // namespace

int main() { return looks() && chance_makes_up_for_rounding() ? 0 : 1; }
