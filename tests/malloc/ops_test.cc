// No op asks malloc for more than 4 KiB at a time behind the account's back, once it is warm.
#include "brim/ops/ops.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>

#include "brim/autograd/backward.h"
#include "brim/tests/malloc/malloc_watch.h"

namespace brim {
namespace {

using testing::kSmallAllocation;
using testing::MallocWatch;

/// Runs `work` twice, so that everything is compiled and cached, then watches a third run.
size_t largest_allocation(const std::function<void()>& work) {
  work();
  work();
  MallocWatch watch;
  work();
  if (watch.largest() > 0) watch.print_caller();
  return watch.largest();
}

Tensor leaf(const Shape& shape, uint64_t key) {
  return normal(shape, 1, RandomKey{key}).set_requires_grad();
}

void check_conv(const Shape& x_shape, const Shape& weight_shape, const Conv2dOptions& options,
                bool bias) {
  CAPTURE(to_string(x_shape));
  CAPTURE(to_string(weight_shape));
  Tensor x = leaf(x_shape, 1), weight = leaf(weight_shape, 2);
  Tensor b = bias ? leaf({weight_shape[0]}, 3) : Tensor();
  Tensor dy = normal(conv2d_shape(x_shape, weight_shape, options), 1, RandomKey{4});
  CHECK(largest_allocation([&] { backward(conv2d(x, weight, b, options), {.grad = dy}); }) == 0);
}

/// Forward and backward of an op on leaves of these shapes, in each floating dtype.
void check_each_dtype(const char* op, const std::vector<Shape>& shapes,
                      const std::function<Tensor(const std::vector<Tensor>&)>& run) {
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
    CAPTURE(op);
    CAPTURE(to_string(dtype));
    std::vector<Tensor> leaves;
    for (const Shape& shape : shapes)
      leaves.push_back(
          normal(shape, 1, RandomKey{leaves.size()}, {.dtype = dtype}).set_requires_grad());
    Tensor dy = ones(run(leaves).shape(), {.dtype = dtype});
    CHECK(largest_allocation([&] { backward(run(leaves), {.grad = dy}); }) == 0);
  }
}

}  // namespace

TEST_CASE("the watch sees a large allocation") {
  auto allocate = [] {
    void* volatile memory = std::malloc(kSmallAllocation + 1);  // or the compiler leaves both out
    std::free(memory);
  };
  CHECK(largest_allocation(allocate) == kSmallAllocation + 1);
}

TEST_CASE("convolutions keep to their scratch") {
  check_conv({2, 64, 64, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3}, false);
  check_conv({2, 28, 28, 64}, {64, 3, 3, 64}, {.padding = 1}, true);
  check_conv({2, 28, 28, 64}, {96, 3, 3, 64}, {.stride = 2, .padding = 1}, false);
  check_conv({2, 28, 28, 64}, {256, 1, 1, 64}, {}, false);
  check_conv({2, 28, 28, 256}, {512, 1, 1, 256}, {.stride = 2}, false);
  check_conv({2, 7, 7, 512}, {2048, 1, 1, 512}, {}, true);
  check_conv({2, 28, 28, 30}, {50, 3, 3, 30}, {.padding = 1}, true);
  check_conv({2, 28, 28, 128}, {128, 3, 3, 4}, {.padding = 1, .groups = 32}, false);
  check_conv({2, 28, 28, 96}, {96, 3, 3, 1}, {.stride = 2, .padding = 1, .groups = 96}, true);
  check_conv({2, 28, 28, 96}, {96, 5, 5, 1}, {.padding = 2, .groups = 96}, false);
  check_conv({2, 28, 28, 24}, {24, 3, 3, 24}, {.padding = 2, .dilation = 2}, false);
}

TEST_CASE("matrix products keep to their scratch") {
  Tensor x = leaf({16, 2048}, 1), weight = leaf({1000, 2048}, 2), bias = leaf({1000}, 3);
  Tensor dy = normal({16, 1000}, 1, RandomKey{4});
  CHECK(largest_allocation([&] { backward(linear(x, weight, bias), {.grad = dy}); }) == 0);
  Tensor a = leaf({4, 200, 300}, 1), b = leaf({300, 100}, 2);
  Tensor dc = normal({4, 200, 100}, 1, RandomKey{4});
  CHECK(largest_allocation([&] { backward(matmul(a, b), {.grad = dc}); }) == 0);
}

TEST_CASE("convolutions and matrix products keep to the account, in every floating dtype") {
  auto conv = [](const Conv2dOptions& options) {
    return [=](const auto& in) { return conv2d(in[0], in[1], in[2], options); };
  };
  const Shape image{2, 14, 14, 32};
  check_each_dtype("conv2d", {image, {48, 3, 3, 32}, {48}}, conv({.padding = 1}));
  check_each_dtype("conv2d 1x1", {image, {48, 1, 1, 32}, {48}}, conv({}));
  check_each_dtype("conv2d depthwise", {image, {32, 3, 3, 1}, {32}},
                   conv({.stride = 2, .padding = 1, .groups = 32}));
  check_each_dtype("conv2d grouped", {image, {32, 3, 3, 4}, {32}}, conv({.groups = 8}));
  check_each_dtype("conv_transpose2d", {image, {32, 2, 2, 24}, {24}}, [](const auto& in) {
    return conv_transpose2d(in[0], in[1], in[2], {.stride = 2});
  });
  check_each_dtype("linear", {{64, 300}, {100, 300}, {100}},
                   [](const auto& in) { return linear(in[0], in[1], in[2]); });
  check_each_dtype("matmul", {{3, 60, 70}, {70, 80}},
                   [](const auto& in) { return matmul(in[0], in[1]); });
}

TEST_CASE("batch norm keeps to the account, in every floating dtype") {
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
    CAPTURE(to_string(dtype));
    Dtype wide = dtype == Dtype::float64 ? dtype : Dtype::float32;
    auto channels = [&] { return ones({32}, {.dtype = wide}); };
    Tensor x = normal({4, 16, 16, 32}, 1, RandomKey{1}, {.dtype = dtype}).set_requires_grad();
    Tensor residual = ones(x.shape(), {.dtype = dtype}).set_requires_grad();
    Tensor weight = channels().set_requires_grad(), bias = channels().set_requires_grad();
    Tensor mean = channels(), var = channels(), dy = ones(x.shape(), {.dtype = dtype});
    for (Activation activation : {Activation::none, Activation::relu, Activation::hardswish})
      CHECK(largest_allocation([&] {
              Tensor y = batch_norm(x, weight, bias, mean, var,
                                    {.residual = residual, .activation = activation});
              backward(y, {.grad = dy});
            }) == 0);
  }
}

TEST_CASE("every other op keeps to the account, in every floating dtype") {
  const Shape image{4, 16, 16, 32}, rows{64, 100};
  auto unary = [&](const char* op, const Shape& shape, Tensor (*run)(Tensor)) {
    check_each_dtype(op, {shape}, [=](const std::vector<Tensor>& in) { return run(in[0]); });
  };
  unary("relu", image, [](Tensor x) { return relu(std::move(x)); });
  unary("relu6", image, [](Tensor x) { return relu6(std::move(x)); });
  unary("hardsigmoid", image, [](Tensor x) { return hardsigmoid(std::move(x)); });
  unary("hardswish", image, [](Tensor x) { return hardswish(std::move(x)); });
  unary("leaky_relu", image, [](Tensor x) { return leaky_relu(std::move(x)); });
  unary("sigmoid", image, [](Tensor x) { return sigmoid(std::move(x)); });
  unary("tanh", image, [](Tensor x) { return tanh(std::move(x)); });
  unary("gelu", image, [](Tensor x) { return gelu(std::move(x)); });
  unary("silu", image, [](Tensor x) { return silu(std::move(x)); });
  unary("neg", image, [](Tensor x) { return neg(std::move(x)); });
  unary("abs", image, [](Tensor x) { return abs(std::move(x)); });
  unary("exp", image, [](Tensor x) { return exp(std::move(x)); });
  unary("log", image, [](Tensor x) { return log(std::move(x)); });
  unary("sqrt", image, [](Tensor x) { return sqrt(std::move(x)); });
  unary("clamp", image, [](Tensor x) { return clamp(std::move(x), {.min = 0, .max = 1}); });
  unary("softmax", rows, [](Tensor x) { return softmax(std::move(x)); });
  unary("log_softmax", rows, [](Tensor x) { return log_softmax(std::move(x), 0); });
  unary("sum", image, [](Tensor x) { return sum(std::move(x), {0, 2}); });
  unary("mean", image, [](Tensor x) { return mean(std::move(x)); });
  unary("max", image, [](Tensor x) { return max(std::move(x), {1, 2}); });
  unary("max_pool2d", image, [](Tensor x) { return max_pool2d(std::move(x), {.kernel = 2}); });
  unary("avg_pool2d", image, [](Tensor x) { return avg_pool2d(std::move(x), {.kernel = 2}); });
  unary("global_avg_pool", image, [](Tensor x) { return global_avg_pool(std::move(x)); });
  unary("adaptive_avg_pool2d", image,
        [](Tensor x) { return adaptive_avg_pool2d(std::move(x), 7); });
  unary("interpolate", image, [](Tensor x) {
    return interpolate(std::move(x), {.scale = 2, .mode = InterpolateMode::bilinear});
  });
  unary("reshape", image, [](Tensor x) { return reshape(std::move(x), {4, -1}); });
  unary("permute", image, [](Tensor x) { return permute(std::move(x), {0, 3, 1, 2}); });
  unary("pad", image, [](Tensor x) { return pad(std::move(x), {{}, {1, 1}, {1, 1}, {}}); });
  unary("slice", image, [](Tensor x) { return slice(std::move(x), 1, {.step = 2}); });
  unary("split", image, [](Tensor x) { return split(std::move(x), 8, 3)[1]; });
  unary("cast", image, [](Tensor x) { return cast(cast(x, Dtype::float64), x.dtype()); });
  unary("dropout", image, [](Tensor x) { return dropout(std::move(x)); });
  check_each_dtype("add", {image, {32}}, [](const auto& in) { return add(in[0], in[1]); });
  check_each_dtype("sub", {image, {32}}, [](const auto& in) { return sub(in[0], in[1]); });
  check_each_dtype("mul", {image, {16, 1}}, [](const auto& in) { return mul(in[0], in[1]); });
  check_each_dtype("div", {image, {16, 1}}, [](const auto& in) { return div(in[0], in[1]); });
  Tensor mask = ones({16, 16, 1}, {.dtype = Dtype::boolean});
  check_each_dtype("where", {image, {}}, [&](const auto& in) { return where(mask, in[0], in[1]); });
  check_each_dtype("concat", {image, image}, [](const auto& in) { return concat(in, 3); });
  Tensor labels = zeros({64}, {.dtype = Dtype::int64});
  check_each_dtype("cross_entropy", {rows},
                   [&](const auto& in) { return cross_entropy(in[0], labels); });
  check_each_dtype("group_norm", {image, {32}, {32}},
                   [](const auto& in) { return group_norm(in[0], 8, in[1], in[2]); });
  check_each_dtype("layer_norm", {rows, {100}, {100}},
                   [](const auto& in) { return layer_norm(in[0], {100}, in[1], in[2]); });
  check_each_dtype(
      "squeeze_excitation", {image, {8, 1, 1, 32}, {8}, {32, 1, 1, 8}, {32}},
      [](const auto& in) { return squeeze_excitation(in[0], in[1], in[2], in[3], in[4]); });
  const Shape tokens{2, 4, 32, 16};
  check_each_dtype("scaled_dot_product_attention", {tokens, tokens, tokens}, [](const auto& in) {
    return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
  });
  check_each_dtype("mse_loss", {image, image},
                   [](const auto& in) { return mse_loss(in[0], in[1]); });
  check_each_dtype("binary_cross_entropy_with_logits", {rows, rows},
                   [](const auto& in) { return binary_cross_entropy_with_logits(in[0], in[1]); });
  check_each_dtype("kl_div", {rows, rows},
                   [](const auto& in) { return kl_div(in[0], in[1], {.log_target = true}); });
  Tensor places = zeros({64, 400}, {.dtype = Dtype::int64});
  check_each_dtype("gather", {rows}, [&](const auto& in) { return gather(in[0], 1, places); });
  check_each_dtype("embedding", {rows}, [&](const auto& in) { return embedding(labels, in[0]); });
  Tensor pixels = zeros({4, 64, 64, 3}, {.dtype = Dtype::uint8});
  CHECK(largest_allocation([&] { argmax(ones(image), {3}); }) == 0);
  CHECK(largest_allocation([&] {
          normalize(pixels, {.mean = {0.5f, 0.5f, 0.5f}, .std = {0.2f, 0.2f, 0.2f}});
        }) == 0);
}

}  // namespace brim
