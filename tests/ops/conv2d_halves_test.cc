// Convolutions of halves by brim's own kernels, which read and write them, and compute in float32.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/base/flush_denormals.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/matmul.h"
#include "brim/ops/permute.h"
#include "brim/ops/reshape.h"
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

/// dy^T x, of pixels: what the weight gradient of a 1x1 window is.
Tensor product_of_pixels(const ConvShape& z, const Tensor& x, const Tensor& dy) {
  const Tensor rows = permute(reshape(dy, {z.pixels(), z.k}), {1, 0});
  return reshape(matmul(rows, reshape(x, {z.pixels(), z.c})), {z.k, 1, 1, z.c});
}

/// Every half there is, in pixels of 16 channels.
template <class H>
Tensor every_half() {
  Tensor all = empty({1, 64, 64, 16}, {.dtype = dtype_of<H>});
  for (int64_t i = 0; i < all.numel(); ++i) all.data<H>()[i].bits = static_cast<uint16_t>(i);
  return all;
}

/// Is each the product in float32, rounded? A NaN may be any. What is subnormal in float32 is 0, of
/// any sign.
template <class H>
void check_products(const Tensor& got, const Tensor& x, float factor) {
  const FlushDenormals flush;
  int64_t wrong = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const H one = got.data<H>()[i];
    const float product = static_cast<float>(x.data<H>()[i]) * factor + 0.0f;
    bool right = one.bits == H(product).bits;
    if (std::isnan(product)) right = std::isnan(static_cast<float>(one));
    if (product == 0) right = (one.bits & 0x7fff) == 0;
    wrong += right ? 0 : 1;
  }
  CHECK(wrong == 0);
}

template <class H>
void check_rounding() {
  const Tensor x = every_half<H>();
  for (const float factor : {1.0f, 1.0078125f, 1.5f, -0.7890625f, 3e-5f}) {
    CAPTURE(factor);
    const Tensor weight = full({16, 1, 1, 1}, factor, {.dtype = dtype_of<H>});
    const Tensor y = conv2d(x, weight, Tensor(), {.groups = 16});
    check_products<H>(y, x, static_cast<float>(weight.data<H>()[0]));
  }
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

TEST_CASE("conv2d: every half times a few numbers is rounded to nearest even") {
  SUBCASE("bfloat16") { check_rounding<BFloat16>(); }
  SUBCASE("float16") { check_rounding<Float16>(); }
}

TEST_CASE("conv2d: large depthwise halves, stored past the caches, are those of half the batch") {
  // x is just above 24 MiB, and so is y for stride 1; half of the batch is below. Pixels are whole
  // lines of the caches.
  const Shape shape{2, 56, 220, 512};
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16})
    for (int64_t stride : {1, 2}) {
      CAPTURE(to_string(dtype));
      CAPTURE(stride);
      const TensorOptions options{.dtype = dtype};
      const Conv2dOptions window{.stride = stride, .padding = 1, .groups = 512};
      const Tensor x = normal(shape, 1, RandomKey{1}, options);
      const Tensor weight = normal({512, 3, 3, 1}, 1, RandomKey{2}, options);
      const Tensor dy =
          normal(conv2d_shape(shape, weight.shape(), window), 1, RandomKey{3}, options);
      auto half_of = [&](const Tensor& whole, int64_t i) {
        Shape part = whole.shape();
        part[0] = 1;
        return clone(
            Tensor(whole.storage(), {part, contiguous_strides(part), i * numel(part), dtype}));
      };
      const ConvolutionResults whole = testing::differentiate(x, weight, dy, window);
      for (int64_t i : {0, 1}) {
        const ConvolutionResults part =
            testing::differentiate(half_of(x, i), weight, half_of(dy, i), window);
        CHECK(testing::bit_difference(half_of(whole.y, i), part.y) == "");
        CHECK(testing::bit_difference(half_of(whole.dx, i), part.dx) == "");
      }
    }
}

// Those of few channels on one side have a kernel of their own (ops/cpu/narrow_weight.h).
TEST_CASE("conv2d: the weight gradient of a narrow 1x1 window in halves is dy^T x") {
  const ConvolutionLayer layers[] = {{{1, 33, 40, 16}, {96, 1, 1, 16}, {}},
                                     {{2, 30, 30, 144}, {24, 1, 1, 144}, {}},
                                     {{5, 37, 30, 32}, {16, 1, 1, 32}, {}},
                                     {{2, 30, 31, 64}, {16, 1, 1, 64}, {}},
                                     {{3, 21, 23, 64}, {240, 1, 1, 64}, {}}};
  const auto wide = [](const Tensor& t) { return convert_to(t, {.dtype = Dtype::float64}); };
  const auto squared = [](const Tensor& t) {
    auto values = t.to_vector<double>();
    for (double& value : values) value *= value;
    return from_vector(values, t.shape());
  };
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16})
    for (const ConvolutionLayer& layer : layers) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(layer.x));
      const TensorOptions options{.dtype = dtype};
      const Shape shape = conv2d_shape(layer.x, layer.weight, layer.options);
      const ConvShape z(layer.x, layer.weight, shape, layer.options);
      const Tensor x = normal(layer.x, 1, RandomKey{1}, options);
      const Tensor dy = normal(shape, 1, RandomKey{3}, options);
      const Tensor weight = normal(layer.weight, 1, RandomKey{2}, options);
      const Tensor got = testing::differentiate(x, weight, dy, layer.options).dweight;
      const auto expected = product_of_pixels(z, wide(x), wide(dy)).to_vector<double>();
      auto allowed = product_of_pixels(z, squared(x), squared(dy)).to_vector<double>();
      // A sum in float32 (`check_sums` in conv2d_layers_test.cc), rounded once to halves.
      const double terms = 4 + 2 * std::sqrt(static_cast<double>(z.pixels()));
      for (size_t i = 0; i < allowed.size(); ++i)
        allowed[i] = 0x1p-24 * terms * (std::sqrt(allowed[i]) + std::abs(expected[i])) +
                     epsilon(dtype) / 2 * std::abs(expected[i]);
      CHECK(testing::worst_error(got, expected, allowed) == "");
    }
}

}  // namespace brim
