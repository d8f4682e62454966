// The op of docs/adding_an_op.md, through the harness that brim's own ops go through.
#include "brim/docs/lse_pool/lse_pool.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/support/op_spec.h"

namespace example {
namespace {

using namespace brim;

Tensors reference(const Tensors& in, double r) {
  const Shape& shape = in[0].shape();
  int64_t pixels = shape[1] * shape[2], channels = shape[3];
  std::vector<double> x = in[0].to_vector<double>(), y(static_cast<size_t>(shape[0] * channels));
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < pixels; ++i)
        sum += std::exp(r * x[static_cast<size_t>((n * pixels + i) * channels + c)]);
      y[static_cast<size_t>(n * channels + c)] = std::log(sum / static_cast<double>(pixels)) / r;
    }
  return {from_vector(y, {shape[0], channels})};
}

// [spec]
OpSample sample(const char* name, const Shape& shape, double sharpness) {
  return {
      .name = name,
      .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
      .run = [=](const Tensors& in) { return Tensors{lse_pool(in[0], {.sharpness = sharpness})}; },
      .reference = [=](const Tensors& in) { return reference(in, sharpness); },
      .reduction = shape[1] * shape[2],
      .batched = {0}};
}

void pool_a_matrix() { lse_pool(zeros({2, 3, 4})); }
void pool_bluntly() { lse_pool(zeros({1, 1, 1, 1}), {.sharpness = 0}); }

TEST_CASE("lse_pool: spec") {
  check_op({
      .op = "lse_pool",
      .samples = {sample("images", {2, 3, 5, 4}, 1), sample("sharp", {1, 4, 4, 3}, 5),
                  sample("one pixel", {3, 1, 1, 2}, 2), sample("no channels", {2, 3, 3, 0}, 1)},
      .errors = {{pool_a_matrix,
                  "lse_pool: expected images [N,H,W,C] of at least one pixel, got [2,3,4]"},
                 {pool_bluntly, "lse_pool: expected a sharpness above 0, got 0"}},
  });
}
// [/spec]

}  // namespace
}  // namespace example
