// A training step in which every allocation fails once.
#include <cstdio>

#include "brim/memory/out_of_memory.h"
#include "brim/nn/init.h"
#include "brim/nn/layers.h"
#include "brim/ops/ops.h"
#include "brim/optim/sgd.h"
#include "brim/train/train_step.h"

using namespace brim;

namespace {

struct Net final : nn::Module {
  nn::Conv2d conv{3, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn{8};
  nn::Dropout dropout{0.2};
  nn::Linear fc{8, 10};
  Net() { register_modules({{"conv", conv}, {"bn", bn}, {"dropout", dropout}, {"fc", fc}}); }
  Tensor forward(Tensor x) override {
    x = bn(conv(std::move(x)), {.activation = Activation::relu});
    return fc(dropout(global_avg_pool(std::move(x))));
  }
};

std::vector<double> all_values(const nn::Module& model) {
  std::vector<double> values;
  for (const auto& tensors : {model.named_parameters(), model.named_buffers()})
    for (const nn::NamedTensor& each : tensors)
      for (double value : each.tensor.to_vector<double>()) values.push_back(value);
  return values;
}

void gpu() {
  // [small-gpu]
  auto gpu = memory::capped_host_account("caching", 16 << 20);
  memory::AccountScope scope(gpu);
  Tensor weights = normal({1 << 20}, 0.1f, RandomKey{1});  // 4 MiB of 16
  try {
    empty({1 << 22});  // 16 MiB more
    check(false, "not reached");
  } catch (const memory::OutOfMemory& error) {
    check(error.shortage().total == 16 << 20, "this device has 16 MiB, the machine has more");
  }
  // [/small-gpu]
}

// One undisturbed step; or, with n > 0, a first attempt in which request n is refused.
struct Outcome {
  bool refused = false;
  double loss = 0;
  std::vector<double> values;
};

Outcome train_once(int64_t n) {
  Outcome outcome;
  auto account = memory::capped_host_account("caching", 16 << 20);
  memory::AccountScope scope(account);
  Net model;
  nn::initialize(model, 1);
  optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
  TrainStep step(model, sgd, {.seed = 1});
  Tensor images = uniform({4, 16, 16, 3}, -1, 1, RandomKey{1});
  Tensor labels = from_vector<int64_t>({0, 1, 2, 3}, {4});
  auto loss = [&] { return cross_entropy(model(images), labels); };
  // [every-request]
  int64_t live = account->stats().live;
  std::vector<double> before = all_values(model);
  account->fail_nth(n);
  try {
    outcome.loss = step.run(/*rate=*/0.1, loss);
  } catch (const memory::OutOfMemory&) {
    outcome.refused = true;
    check(account->stats().live == live, "every byte that the attempt took came back");
    check(all_values(model) == before, "no parameter, no running statistic has moved");
    outcome.loss = step.run(/*rate=*/0.1, loss);
  }
  outcome.values = all_values(model);
  // [/every-request]
  return outcome;
}

}  // namespace

int main() {
  gpu();
  // [compare]
  Outcome undisturbed = train_once(0);
  int64_t n = 1;
  for (;; ++n) {
    Outcome outcome = train_once(n);
    if (!outcome.refused) break;  // the step makes fewer than n requests
    check(outcome.loss == undisturbed.loss, "the same loss");
    check(outcome.values == undisturbed.values, "the same parameters and statistics, bit for bit");
  }
  // [/compare]
  std::printf("%ld requests\n", static_cast<long>(n - 1));
}
