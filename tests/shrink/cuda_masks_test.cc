// Masks on a GPU are those of the CPU, and so is what they make of weights. Without a GPU they run
// where kernels are emulated.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/autograd/backward.h"
#include "brim/base/cuda/devices.h"
#include "brim/nn/creation.h"
#include "brim/nn/linear.h"
#include "brim/ops/mul.h"
#include "brim/ops/sum.h"
#include "brim/shrink/weight_masks.h"
#include "brim/tests/support/cuda_skip.h"

using namespace brim;

namespace {

/// Weight and gradient of a layer that was pruned twice, and then its mask.
struct Pruned {
  std::vector<double> weight, gradient, mask;
  double sparsity = 0;
};

Pruned pruned_on(Device device) {
  nn::CreationScope creation({.device = device});
  nn::Linear linear(37, 11);
  nn::initialize(linear, 1);
  shrink::WeightMasks masks(linear, {.amount = 0.3});
  masks.prune({.amount = 0.6});
  const Tensor x = uniform({11, 37}, 1, 2, RandomKey{2});
  backward(sum(mul(linear.weight, convert_to(x, {.device = device}))));
  return {linear.weight.to_vector<double>(), linear.weight.grad().to_vector<double>(),
          masks.masks()[0].tensor.to_vector<double>(), masks.sparsity()};
}

}  // namespace

TEST_CASE("cuda: a mask makes zeros, of NaN too, and leaves the other bits") {
  if (testing::skipped_on_cuda("weight masks")) return;
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
    const Tensor values = uniform({3, 700}, -1, 1, RandomKey{5});
    values.data<float>()[0] = values.data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
    const Tensor stays = convert_to(uniform({3, 700}, 0, 2, RandomKey{6}), {.dtype = Dtype::uint8});
    stays.data<uint8_t>()[0] = 0;
    stays.data<uint8_t>()[1] = 1;
    const auto masked_on = [&](Device device) {
      const Tensor x = clone(convert_to(values, {.dtype = dtype, .device = device}));
      launch(kernel::apply_mask, {convert_to(stays, {.dtype = Dtype::boolean, .device = device})},
             {x});
      return x.to_vector<double>();
    };
    std::vector<double> here = masked_on(Device::cpu()), there = masked_on(Device::cuda());
    CHECK(there[0] == 0);
    CHECK(std::isnan(there[1]));
    here[1] = there[1] = 0;
    CHECK(there == here);
  }
}

TEST_CASE("cuda: layers are pruned as on the CPU, and their gradients masked") {
  if (testing::skipped_on_cuda("weight masks")) return;
  const Pruned here = pruned_on(Device::cpu()), there = pruned_on(Device::cuda());
  CHECK(there.mask == here.mask);
  CHECK(there.weight == here.weight);
  CHECK(there.sparsity == here.sparsity);
  CHECK(there.gradient == here.gradient);
  CHECK(here.sparsity == doctest::Approx(0.6).epsilon(0.01));
}
