#include "brim/ops/global_avg_pool.h"

#include <doctest/doctest.h>

#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensors reference(const Tensors& in) {
  int64_t n = in[0].size(0), pixels = in[0].size(1) * in[0].size(2), channels = in[0].size(3);
  std::vector<double> x = in[0].to_vector<double>(), y(static_cast<size_t>(n * channels));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t c = 0; c < channels; ++c)
        y[static_cast<size_t>(i * channels + c)] +=
            x[static_cast<size_t>((i * pixels + p) * channels + c)] / static_cast<double>(pixels);
  return {from_vector(y, {n, channels})};
}

OpSample sample(const char* name, const Shape& shape) {
  return {.name = name,
          .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [](const Tensors& in) { return Tensors{global_avg_pool(in[0])}; },
          .reference = reference,
          .reduction = shape[1] * shape[2],
          .batched = {0}};
}

}  // namespace

TEST_CASE("global_avg_pool: spec") {
  check_op({.op = "global_avg_pool",
            .samples = {sample("images", {2, 3, 5, 4}), sample("many channels", {2, 2, 2, 131}),
                        sample("one pixel", {3, 1, 1, 2}), sample("no channels", {2, 3, 3, 0})},
            .errors = {{[] {
                          global_avg_pool(zeros({2, 3}));
                        },
                        "global_avg_pool: expected an input [N,H,W,C] with at least one pixel, got "
                        "[2,3]"},
                       {[] {
                          global_avg_pool(zeros({2, 0, 3, 4}));
                        },
                        "got [2,0,3,4]"},
                       {[] {
                          global_avg_pool(zeros({1, 2, 2, 3}, {.dtype = Dtype::uint8}));
                        },
                        "global_avg_pool: expected a floating dtype, got uint8"}}});
}

TEST_CASE("global_avg_pool: long sums keep their digits") {
  // A float that adds 2^24 ones stops at 2^24 + 0: the sum is taken in double.
  Tensor x = full({1, 1 << 12, 1 << 9, 1}, 1.1);
  CHECK(global_avg_pool(x).item<float>() == 1.1f);
}

}  // namespace brim
