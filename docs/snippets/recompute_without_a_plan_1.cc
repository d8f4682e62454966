// The block of recompute_without_a_plan.md: two layers whose results are made again, with the same
// gradients.
#include "brim/autograd/backward.h"
#include "brim/autograd/checkpoint.h"
#include "brim/ops/ops.h"

using namespace brim;

int main() {
  Tensor w1 = uniform({8, 8}, -1, 1, {1}).set_requires_grad();
  Tensor w2 = uniform({8, 8}, -1, 1, {2}).set_requires_grad();
  const Tensor images = uniform({4, 8}, -1, 1, {3});
  backward(sum(relu(matmul(relu(matmul(images, w1)), w2))));
  const std::vector<float> expected = w1.grad().to_vector<float>();
  w1.set_grad({});
  w2.set_grad({});

  Tensor x = images;
  // [checkpoint]
  Tensor y = autograd::checkpoint(
      [&](Tensor t) { return relu(matmul(relu(matmul(std::move(t), w1)), w2)); }, std::move(x));
  // [/checkpoint]
  backward(sum(std::move(y)));
  check(w1.grad().to_vector<float>() == expected, "the same bits");
}
