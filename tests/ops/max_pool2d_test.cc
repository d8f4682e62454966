#include "brim/ops/max_pool2d.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/memory/account.h"
#include "brim/ops/neg.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensors reference(const Tensors& in, const MaxPool2dOptions& options, int64_t out_h,
                  int64_t out_w) {
  const Shape& shape = in[0].shape();
  Pair stride = stride_or_kernel(options.stride, options.kernel);
  std::vector<double> x = in[0].to_vector<double>(), y;
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t i = 0; i < out_h; ++i)
      for (int64_t j = 0; j < out_w; ++j)
        for (int64_t c = 0; c < shape[3]; ++c) {
          double most = -INFINITY;
          for (int64_t r = 0; r < options.kernel.h; ++r)
            for (int64_t s = 0; s < options.kernel.w; ++s) {
              int64_t h = i * stride.h - options.padding.h + r;
              int64_t w = j * stride.w - options.padding.w + s;
              if (h < 0 || w < 0 || h >= shape[1] || w >= shape[2]) continue;
              auto at = static_cast<size_t>(((n * shape[1] + h) * shape[2] + w) * shape[3] + c);
              if (x[at] > most || std::isnan(x[at])) most = x[at];
            }
          y.push_back(most);
        }
  return {from_vector(y, {shape[0], out_h, out_w, shape[3]})};
}

OpSample sample(const char* name, const Shape& shape, const MaxPool2dOptions& options,
                int64_t out_h, int64_t out_w) {
  return {.name = name,
          .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [=](const Tensors& in) { return Tensors{max_pool2d(in[0], options)}; },
          .reference = [=](const Tensors& in) { return reference(in, options, out_h, out_w); },
          .batched = {0}};
}

std::vector<float> pooled(const std::vector<float>& x, const Shape& shape,
                          const MaxPool2dOptions& options) {
  return max_pool2d(from_vector(x, shape), options).to_vector<float>();
}

// The gradient of the sum of all outputs.
std::vector<float> gradient(const std::vector<float>& values, const Shape& shape,
                            const MaxPool2dOptions& options) {
  Tensor x = from_vector(values, shape);
  x.set_requires_grad();
  Tensor y = max_pool2d(x, options);
  backward(y, {.grad = ones(y.shape())});
  return x.grad().to_vector<float>();
}

}  // namespace

TEST_CASE("max_pool2d: spec") {
  check_op(
      {.op = "max_pool2d",
       .samples = {sample("ResNet's", {2, 9, 8, 3}, {.kernel = 3, .stride = 2, .padding = 1}, 5, 4),
                   sample("by default without overlap", {2, 4, 5, 70}, {.kernel = 2}, 2, 2),
                   sample("not square", {1, 6, 7, 5},
                          {.kernel = {2, 4}, .stride = {1, 3}, .padding = {1, 2}}, 7, 3),
                   sample("stride beyond the kernel", {1, 7, 7, 2}, {.kernel = 2, .stride = 3}, 2,
                          2),
                   sample("ceil_mode", {1, 6, 6, 2}, {.kernel = 3, .stride = 2, .ceil_mode = true},
                          3, 3),
                   sample("ceil_mode, the last window would start outside", {1, 3, 4, 2},
                          {.kernel = 2, .stride = 2, .padding = 1, .ceil_mode = true}, 2, 3)},
       .errors = {
           {[] {
              max_pool2d(zeros({2, 3, 4}), {.kernel = 2});
            },
            "max_pool2d: expected an input [N,H,W,C], got [2,3,4]"},
           {[] {
              max_pool2d(zeros({1, 3, 3, 2}), {.kernel = {2, 4}});
            },
            "expected an input of at least the kernel [2,4] less padding [0,0], got [1,3,3,2]"},
           {[] {
              max_pool2d(zeros({1, 3, 3, 2}), {.kernel = 0});
            },
            "kernel of at least 1"},
           {[] {
              max_pool2d(zeros({1, 3, 3, 2}), {.kernel = 1, .stride = -1});
            },
            "stride of at least 1"},
           {[] {
              max_pool2d(zeros({1, 3, 3, 2}), {.kernel = 2, .padding = 2});
            },
            "expected a padding of 0 to half of the kernel [2,2], got [2,2]"},
           {[] {
              max_pool2d(zeros({1, 20, 20, 2}), {.kernel = 16});
            },
            "expected a kernel of at most 255 elements, got [16,16]"},
           {[] {
              max_pool2d(zeros({1, 3, 3, 2}, {.dtype = Dtype::int8}), {.kernel = 2});
            },
            "max_pool2d: expected a floating dtype, got int8"}}});
}

TEST_CASE("max_pool2d: of equal values the first in row-major order wins") {
  CHECK(gradient({1, 1, 1, 1}, {1, 2, 2, 1}, {.kernel = 2}) == std::vector<float>{1, 0, 0, 0});
  CHECK(gradient({0, 2, 2, 2}, {1, 2, 2, 1}, {.kernel = 2}) == std::vector<float>{0, 1, 0, 0});
  // Overlapping windows add up.
  CHECK(gradient({1, 3, 2, 0, 0, 0, 0, 0, 0}, {1, 3, 3, 1}, {.kernel = 2, .stride = 1}) ==
        std::vector<float>{0, 2, 0, 1, 1, 0, 0, 0, 0});
}

TEST_CASE("max_pool2d: keeps a byte for each result, and not its input") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope of(account);
  Tensor x = uniform({4, 16, 16, 32}, -1, 1, RandomKey{1}).set_requires_grad();
  Tensor y = max_pool2d(neg(x), {.kernel = 2, .stride = 2});
  const int64_t results = y.numel(), size = sizeof(float);
  CHECK(account->stats().live == (x.numel() + results) * size + results);
}

TEST_CASE("max_pool2d: NaN wins and gets the gradient") {
  std::vector<float> x{5, NAN, 1, 2};
  CHECK(std::isnan(pooled(x, {1, 2, 2, 1}, {.kernel = 2})[0]));
  CHECK(gradient(x, {1, 2, 2, 1}, {.kernel = 2}) == std::vector<float>{0, 1, 0, 0});
}

TEST_CASE("max_pool2d: padding never wins") {
  std::vector<float> x{-3, -4, -5, -INFINITY};
  CHECK(pooled(x, {1, 2, 2, 1}, {.kernel = 2, .stride = 2, .padding = 1}) ==
        std::vector<float>{-3, -4, -5, -INFINITY});
  CHECK(gradient(x, {1, 2, 2, 1}, {.kernel = 2, .stride = 2, .padding = 1}) ==
        std::vector<float>{1, 1, 1, 1});
}

}  // namespace brim
