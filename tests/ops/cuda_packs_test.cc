// Kernels for GPUs that read whole packs of channels have the bits of those that read one channel
// at a time: which of the two runs follows from where x begins. On a GPU or an emulated one.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "brim/autograd/backward.h"
#include "brim/ops/adaptive_avg_pool2d.h"
#include "brim/ops/avg_pool2d.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/ops/max_pool2d.h"
#include "brim/ops/mul.h"
#include "brim/ops/sum.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/cuda_skip.h"

using namespace brim;
using testing::bit_difference;

namespace {

Tensor drawn(const Shape& shape, Dtype dtype, uint64_t key) {
  return convert_to(uniform(shape, -2, 2, RandomKey{key}), {dtype, Device::cuda()});
}

/// The same values a single element behind a boundary, where no pack can be read.
Tensor moved(const Tensor& x) {
  const Tensor base = zeros({x.numel() + 1}, {x.dtype(), x.device()});
  const Tensor behind(base.storage(), {x.shape(), x.strides(), 1, x.dtype()});
  copy_into(behind, x);
  return behind;
}

using Layer = std::function<Tensor(const Tensor& x)>;

/// The result of the layer and the gradient of x.
std::vector<Tensor> run(const Layer& layer, Tensor x) {
  x.set_requires_grad(true);
  const Tensor y = layer(x);
  backward(sum(mul(y, drawn(y.shape(), y.dtype(), 9))));
  return {convert_to(y, {.dtype = y.dtype()}), convert_to(x.grad(), {.dtype = x.dtype()})};
}

void check_layer(const char* name, const Layer& layer) {
  CAPTURE(name);
  // Pieces of the pixels and one of them, more channels than a block has, and all types' packs.
  for (const Shape& shape : {Shape{3, 20, 20, 24}, Shape{2, 5, 6, 264}})
    for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
      CAPTURE(to_string(dtype));
      const Tensor x = drawn(shape, dtype, 1);
      const std::vector<Tensor> by_pack = run(layer, x), one_by_one = run(layer, moved(x));
      CHECK(bit_difference(by_pack[0], one_by_one[0]) == "");
      CHECK(bit_difference(by_pack[1], one_by_one[1]) == "");
    }
}

}  // namespace

TEST_CASE("cuda packs: pooling has the same bits wherever its images begin") {
  if (testing::skipped_on_cuda("packs")) return;
  check_layer("max_pool2d", [](const Tensor& x) {
    return max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
  });
  check_layer("avg_pool2d", [](const Tensor& x) {
    return avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
  });
  check_layer("adaptive_avg_pool2d", [](const Tensor& x) { return adaptive_avg_pool2d(x, 3); });
  check_layer("global_avg_pool", [](const Tensor& x) { return global_avg_pool(x); });
}

TEST_CASE("cuda packs: batch norm has the same bits wherever its images begin") {
  if (testing::skipped_on_cuda("packs")) return;
  for (const Activation activation : {Activation::none, Activation::relu, Activation::hardswish})
    for (const bool training : {true, false}) {
      CAPTURE(static_cast<int>(activation));
      CAPTURE(training);
      check_layer("batch_norm", [=](const Tensor& x) {
        const Dtype kept = x.dtype() == Dtype::float64 ? Dtype::float64 : Dtype::float32;
        const Shape channels{x.shape().back()};
        const auto one = [&](uint64_t key) { return drawn(channels, kept, key); };
        return batch_norm(x, one(2), one(3), one(4), mul(one(5), one(5)),
                          {.activation = activation, .training = training});
      });
    }
}

TEST_CASE("cuda packs: depthwise convolution has the same bits wherever its images begin") {
  if (testing::skipped_on_cuda("packs")) return;
  for (const int window : {3, 5})
    for (const int stride : {1, 2}) {
      CAPTURE(window);
      CAPTURE(stride);
      const auto gradient_of_weight = [=](Tensor x) {
        const int channels = static_cast<int>(x.shape().back());
        Tensor weight = drawn({channels, window, window, 1}, x.dtype(), 2);
        weight.set_requires_grad(true);
        const Tensor y =
            conv2d(x, weight, {}, {.stride = stride, .padding = window / 2, .groups = channels});
        backward(sum(mul(y, drawn(y.shape(), y.dtype(), 9))));
        return convert_to(weight.grad(), {.dtype = x.dtype()});
      };
      for (const Shape& shape : {Shape{3, 20, 21, 24}, Shape{2, 5, 6, 264}, Shape{1, 9, 9, 8}})
        for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
          CAPTURE(to_string(dtype));
          const Tensor x = drawn(shape, dtype, 1);
          CHECK(bit_difference(gradient_of_weight(x), gradient_of_weight(moved(x))) == "");
        }
      check_layer("data", [=](const Tensor& x) {
        const int channels = static_cast<int>(x.shape().back());
        return conv2d(x, drawn({channels, window, window, 1}, x.dtype(), 2), {},
                      {.stride = stride, .padding = window / 2, .groups = channels});
      });
    }
}
