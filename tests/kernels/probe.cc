// Prints, for instructions_test.cc: the instructions that were chosen; the scratch of a float64
// matrix product, whose panels are as wide as the kernels' vectors; a sum of squares; the losses of
// a small network that trains for a few steps.
#include <cstdio>
#include <string>

#include "brim/autograd/backward.h"
#include "brim/base/instructions.h"
#include "brim/core/launch.h"
#include "brim/ops/matmul.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/small_net.h"

namespace brim {
namespace {

struct ScratchCounter final : memory::Recorder {
  void allocated(const memory::Block& block) override {
    if (block.category == memory::Category::scratch) bytes += block.bytes;
  }
  void released(const memory::Block&) noexcept override {}

  int64_t bytes = 0;
};

int64_t matmul_scratch() {
  TensorOptions options{.dtype = Dtype::float64};
  Tensor a = ones({5, 7}, options), b = ones({7, 3}, options);
  ScratchCounter counter;
  auto account = memory::account(Device::cpu());
  account->set_recorder(&counter);
  matmul(a, b);
  account->set_recorder(nullptr);
  return counter.bytes;
}

double sum_of_squares() {
  Tensor x = uniform({100000}, -1, 1, RandomKey{1});
  Tensor sum = empty({1}, {.dtype = Dtype::float64});
  optim::StepScalars scalars("probe", Device::cpu());
  scalars.write({});
  launch(kernel::square_sum, Dtype::float32, {x, scalars.buffer()}, {sum});
  return sum.item<double>();
}

void train() {
  testing::SmallNet net(/*dropout=*/0);
  testing::Problem problem = testing::random_problem(/*batch=*/8, /*size=*/8, /*classes=*/4);
  optim::Sgd sgd(net.named_parameters(), {.momentum = 0.9});
  for (int step = 0; step < 5; ++step) {
    Tensor loss = cross_entropy(net(problem.images), problem.labels);
    backward(loss);
    sgd.step(/*rate=*/0.05);
    sgd.zero_grad();
    std::printf("%.17g\n", loss.item<double>());
  }
}

}  // namespace
}  // namespace brim

int main() {
  std::printf("%s\n", std::string(to_string(brim::instructions())).c_str());
  std::printf("%lld\n", static_cast<long long>(brim::matmul_scratch()));
  std::printf("%.17g\n", brim::sum_of_squares());
  brim::train();
}
