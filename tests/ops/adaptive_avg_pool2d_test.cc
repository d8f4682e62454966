#include "brim/ops/adaptive_avg_pool2d.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/ops/avg_pool2d.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// Sizes are small: quotients in double are floored and ceiled right.
Tensors reference(const Tensors& in, Pair output) {
  const Shape& shape = in[0].shape();
  std::vector<double> x = in[0].to_vector<double>(), y;
  auto first = [](int64_t i, int64_t size, int64_t out) {
    return static_cast<int64_t>(std::floor(static_cast<double>(i * size) / out));
  };
  auto last = [](int64_t i, int64_t size, int64_t out) {
    return static_cast<int64_t>(std::ceil(static_cast<double>((i + 1) * size) / out));
  };
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t i = 0; i < output.h; ++i)
      for (int64_t j = 0; j < output.w; ++j)
        for (int64_t c = 0; c < shape[3]; ++c) {
          double sum = 0, count = 0;
          for (int64_t h = first(i, shape[1], output.h); h < last(i, shape[1], output.h); ++h)
            for (int64_t w = first(j, shape[2], output.w); w < last(j, shape[2], output.w); ++w) {
              sum += x[static_cast<size_t>(((n * shape[1] + h) * shape[2] + w) * shape[3] + c)];
              ++count;
            }
          y.push_back(sum / count);
        }
  return {from_vector(y, {shape[0], output.h, output.w, shape[3]})};
}

OpSample sample(const char* name, const Shape& shape, Pair output) {
  return {.name = name,
          .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [=](const Tensors& in) { return Tensors{adaptive_avg_pool2d(in[0], output)}; },
          .reference = [=](const Tensors& in) { return reference(in, output); },
          .reduction = (shape[1] / output.h + 2) * (shape[2] / output.w + 2),
          .backward_reduction = (output.h / shape[1] + 2) * (output.w / shape[2] + 2),
          .batched = {0}};
}

}  // namespace

TEST_CASE("adaptive_avg_pool2d: spec") {
  check_op(
      {.op = "adaptive_avg_pool2d",
       .samples = {sample("sizes that divide", {2, 6, 8, 3}, {3, 2}),
                   sample("overlapping windows", {2, 7, 5, 70}, {3, 4}),
                   sample("one pixel", {3, 5, 4, 9}, 1), sample("one row", {1, 5, 4, 2}, {1, 3}),
                   sample("the same size", {1, 3, 4, 2}, {3, 4}),
                   sample("larger than the input", {2, 2, 3, 5}, {5, 7}),
                   sample("from one pixel", {1, 1, 1, 3}, {4, 2}),
                   sample("VGG's, of small images", {1, 2, 2, 8}, 7)},
       .errors = {{[] {
                     adaptive_avg_pool2d(zeros({2, 3}), 1);
                   },
                   "adaptive_avg_pool2d: expected an input [N,H,W,C] with at least one pixel, "
                   "got [2,3]"},
                  {[] {
                     adaptive_avg_pool2d(zeros({2, 0, 3, 4}), {2, 2});
                   },
                   "with at least one pixel, got [2,0,3,4]"},
                  {[] {
                     adaptive_avg_pool2d(zeros({1, 3, 3, 2}), {2, 0});
                   },
                   "adaptive_avg_pool2d: expected an output size of at least 1, got [2,0]"},
                  {[] {
                     adaptive_avg_pool2d(zeros({1, 3, 3, 2}, {.dtype = Dtype::int8}), 1);
                   },
                   "adaptive_avg_pool2d: expected a floating dtype, got int8"}}});
}

TEST_CASE("adaptive_avg_pool2d: to one pixel it is global_avg_pool, to bit") {
  Tensor x = uniform({2, 7, 9, 5}, -1, 1, RandomKey{1});
  Tensor y = adaptive_avg_pool2d(x, 1);
  CHECK(y.shape() == Shape{2, 1, 1, 5});
  CHECK(y.to_vector<float>() == global_avg_pool(x).to_vector<float>());
}

}  // namespace brim
