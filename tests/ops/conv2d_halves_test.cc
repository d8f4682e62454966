// Convolutions of halves by brim's own kernels, which read and write them, and compute in float32.
#include <doctest/doctest.h>

#include "brim/ops/conv2d.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/convolution.h"

namespace brim {
namespace {

using testing::ConvolutionLayer;
using testing::ConvolutionResults;

void check_rounded_results_of_float32(const ConvolutionLayer& layer, Dtype dtype) {
  CAPTURE(to_string(dtype));
  CAPTURE(to_string(layer.x));
  const TensorOptions options{.dtype = dtype};
  const Tensor x = normal(layer.x, 1, RandomKey{1}, options);
  const Tensor weight = normal(layer.weight, 1, RandomKey{2}, options);
  const Shape shape = conv2d_shape(layer.x, layer.weight, layer.options);
  const Tensor dy = normal(shape, 1, RandomKey{3}, options);
  const auto wide = [](const Tensor& t) { return convert_to(t, {.dtype = Dtype::float32}); };
  const auto low = [&](const Tensor& t) { return convert_to(t, options); };
  const ConvolutionResults got = testing::differentiate(x, weight, dy, layer.options);
  const ConvolutionResults expected =
      testing::differentiate(wide(x), wide(weight), wide(dy), layer.options);
  CHECK(testing::bit_difference(got.y, low(expected.y)) == "");
  CHECK(testing::bit_difference(got.dx, low(expected.dx)) == "");
  CHECK(testing::bit_difference(got.dweight, low(expected.dweight)) == "");
}

}  // namespace

TEST_CASE("conv2d: depthwise results in halves are those in float32, rounded") {
  const ConvolutionLayer layers[] = {
      {{2, 20, 21, 40}, {40, 3, 3, 1}, {.padding = 1, .groups = 40}},
      {{2, 21, 20, 40}, {40, 3, 3, 1}, {.stride = 2, .padding = 1, .groups = 40}},
      {{1, 12, 19, 37}, {37, 5, 5, 1}, {.padding = 2, .groups = 37}},
      {{1, 12, 13, 37}, {37, 5, 5, 1}, {.stride = 2, .padding = 2, .groups = 37}}};
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16})
    for (const ConvolutionLayer& layer : layers) check_rounded_results_of_float32(layer, dtype);
}

}  // namespace brim
