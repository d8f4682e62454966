// The smallest program that links brim: fits a line to four points.
#include <cstdio>

#include "brim/brim.h"

int main() {
  using namespace brim;
  Tensor x = from_vector<float>({0, 1, 2, 3}, {4, 1});
  Tensor y = from_vector<float>({1, 3, 5, 7}, {4, 1});  // y = 2x + 1
  nn::Linear line{1, 1};
  nn::initialize(line, /*seed=*/1);
  optim::Sgd sgd(line.named_parameters(), {.momentum = 0.9});
  TrainStep step(line, sgd);
  double loss = 0;
  for (int i = 0; i < 200; ++i)
    loss = step.run(/*rate=*/0.02, [&] {
      Tensor error = line(x) - y;
      return mean(error * error);
    });
  std::printf("y = %.3f x + %.3f, loss %.1e\n", line.tensor("weight").item<double>(),
              line.tensor("bias").item<double>(), loss);
}
