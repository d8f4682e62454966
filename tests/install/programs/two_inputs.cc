// A regression on two inputs, within a budget.
#include <cstdio>
#include <vector>

#include "brim/brim.h"

using namespace brim;

struct Net final : nn::Module {
  nn::Linear a{2, 32}, b{3, 32}, out{32, 1};
  Net() { register_modules({{"a", a}, {"b", b}, {"out", out}}); }
  Tensor forward(Tensor x, Tensor z) override { return out(relu(a(x) + b(z))); }
};

int main() {
  const Recipe recipe{.model = [] { return std::make_shared<Net>(); },
                      .optimizer = [](nn::Module& net) { return optim::adamw(net); },
                      .batch = {{"x", {2}}, {"z", {3}}, {"y", {1}}},
                      .loss =
                          [](nn::Module& net, const Batch& of) {
                            const Tensor error = net(of["x"], of["z"]) - of["y"];
                            return (error * error).mean();
                          }};
  const TrainingPlan less = plan_training(recipe, {.bytes = 8 * KiB, .batch = 16});
  std::printf("%s\n", less.why_not().c_str());
  const TrainingPlan plan = plan_training(recipe, {.bytes = 1 * MiB, .batch = 16});
  const std::vector<float> x(128), z(192), y(64, 0.5f);
  ArraySource source(
      recipe.batch, 16,
      {std::as_bytes(std::span(x)), std::as_bytes(std::span(z)), std::as_bytes(std::span(y))});
  const Training trained = plan.train(source);
  return trained.account()->stats().peak_reserved == plan.predicted().peak_reserved ? 0 : 1;
}
