// Gradient accumulation: an update of eleven images in parts of four, and in one.
#include <cmath>

#include "brim/nn/layers.h"
#include "brim/ops/ops.h"
#include "brim/optim/sgd.h"
#include "brim/train/parts.h"
#include "brim/train/train_step.h"

using namespace brim;

namespace {

struct Net final : nn::Module {
  nn::Linear fc{6, 3};
  Net() {
    register_modules({{"fc", fc}});
    nn::initialize(*this, /*seed=*/1);
    to(Dtype::float64);
  }
  Tensor forward(Tensor x) override { return fc(std::move(x)); }
};

double update(Net& net, int64_t at_once) {
  Tensor x = uniform({11, 6}, -1, 1, RandomKey{1}, {.dtype = Dtype::float64});
  // Three of the labels count nothing.
  Tensor labels = from_vector<int64_t>({0, 1, -100, 2, 1, 0, -100, -100, 2, 2, 1}, {11});
  const double counted = 8;
  optim::Sgd sgd(net.named_parameters());
  double loss = 0;
  // [loop]
  TrainStep step(net, sgd);
  step.begin();
  for (const Part& part : parts_of(11, at_once)) {
    auto rows = [&](const Tensor& all) {
      return slice(all, 0, {.begin = part.first, .end = part.first + part.count});
    };
    loss += step.micro_step(
        [&] { return cross_entropy(net(rows(x)), rows(labels), {.reduction = Reduction::sum}); },
        {.weight = 1 / counted,
         .first_sample = static_cast<uint64_t>(part.first),
         .samples = part.count,
         .update_samples = 11});
  }
  step.prepare(/*rate=*/0.1);
  step.commit();
  loss /= counted;
  // [/loop]
  return loss;
}

}  // namespace

int main() {
  Net whole, parts;
  const double difference = update(whole, 11) - update(parts, 4);
  check(std::abs(difference) < 1e-14, "the same loss");
  auto a = whole.fc.weight.to_vector<double>(), b = parts.fc.weight.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i)
    check(std::abs(a[i] - b[i]) < 1e-14, "and the same weights afterwards");
}
