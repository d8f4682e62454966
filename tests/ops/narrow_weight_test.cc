// The kernel of ops/cpu/narrow_weight.h by itself, with the registers that all processors have: a
// dispatch for others may choose another one.
#include "brim/ops/cpu/narrow_weight.h"

#include <doctest/doctest.h>

#include <vector>

#include "brim/base/parallel.h"
#include "brim/base/random.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/convolution.h"

namespace brim {
namespace {

using Layer = testing::ConvolutionLayer;

Tensor dweight_of(const ConvShape& z, const Layer& layer, const Tensor& x, const Tensor& dy) {
  const Tensor dweight = full(layer.weight, 77);
  const Tensor scratch =
      empty({cpu::narrow_backward_weight_scratch<float>(z)}, {.dtype = Dtype::uint8});
  cpu::narrow_backward_weight(z, x.data<float>(), dy.data<float>(), dweight.data<float>(),
                              scratch.data());
  return dweight;
}

/// Whole numbers from -3 to 3.
Tensor whole_numbers(const Shape& shape, uint64_t key) {
  RandomStream random(RandomKey{key});
  std::vector<float> values(static_cast<size_t>(numel(shape)));
  for (float& value : values) value = static_cast<float>(random.below(7)) - 3;
  return from_vector(values, shape);
}

/// By its definition, a tap at a time.
Tensor expected(const ConvShape& z, const Layer& layer, const Tensor& x, const Tensor& dy) {
  const auto in = x.to_vector<float>(), gradient = dy.to_vector<float>();
  std::vector<float> sums(static_cast<size_t>(numel(layer.weight)));
  for (int64_t pixel = 0; pixel < z.pixels(); ++pixel)
    for (int64_t r = 0; r < z.r; ++r)
      for (int64_t s = 0; s < z.s; ++s) {
        const int64_t q = pixel % z.q, p = pixel / z.q % z.p, n = pixel / z.q / z.p;
        const int64_t i = p * z.stride.h - z.padding.h + r * z.dilation.h;
        const int64_t j = q * z.stride.w - z.padding.w + s * z.dilation.w;
        if (i < 0 || i >= z.h || j < 0 || j >= z.w) continue;
        for (int64_t k = 0; k < z.k; ++k)
          for (int64_t c = 0; c < z.c; ++c)
            sums[static_cast<size_t>(((k * z.r + r) * z.s + s) * z.c + c)] +=
                gradient[static_cast<size_t>(pixel * z.k + k)] *
                in[static_cast<size_t>(((n * z.h + i) * z.w + j) * z.c + c)];
      }
  return from_vector(sums, layer.weight);
}

/// Windows of 1, 2 or more vectors a row, with and without zeros behind them; borders on all
/// sides; outputs that leave each number of vectors to the last tile; pixels that end in a block.
const Layer kLayers[] = {
    {{3, 41, 37, 3}, {32, 3, 3, 3}, {.stride = 2, .padding = 1}},
    {{2, 40, 40, 1}, {8, 5, 5, 1}, {.padding = 2}},
    {{1, 64, 63, 2}, {24, 3, 5, 2}, {.stride = {1, 2}, .padding = {0, 2}}},
    {{2, 34, 30, 7}, {40, 3, 3, 7}, {.padding = {2, 1}, .dilation = {2, 1}}},
    {{4, 50, 50, 4}, {16, 4, 4, 4}, {.stride = 3, .padding = 3}},
    {{600, 3, 2, 3}, {56, 3, 3, 3}, {.padding = 2}},
    {{1, 33, 40, 16}, {96, 1, 1, 16}, {}},
    {{2, 30, 30, 144}, {24, 1, 1, 144}, {}},
};

}  // namespace

// Sums of so few products of such numbers are whole numbers below 2^24, exact in any order.
TEST_CASE("conv2d: the narrow weight gradient is the sum that defines it") {
  for (const Layer& layer : kLayers) {
    CAPTURE(to_string(layer.x));
    CAPTURE(to_string(layer.weight));
    const Shape shape = conv2d_shape(layer.x, layer.weight, layer.options);
    const ConvShape z(layer.x, layer.weight, shape, layer.options);
    REQUIRE(cpu::has_narrow_weight<float>(z));
    REQUIRE(z.pixels() * 9 < int64_t{1} << 24);
    const Tensor x = whole_numbers(layer.x, 1), dy = whole_numbers(shape, 2);
    CHECK(testing::bit_difference(dweight_of(z, layer, x, dy), expected(z, layer, x, dy)) == "");
  }
}

TEST_CASE("conv2d: bits of the narrow weight gradient do not depend on threads") {
  const int threads = num_threads();
  for (const Layer& layer : kLayers) {
    CAPTURE(to_string(layer.x));
    const Shape shape = conv2d_shape(layer.x, layer.weight, layer.options);
    const ConvShape z(layer.x, layer.weight, shape, layer.options);
    const Tensor x = normal(layer.x, 1, RandomKey{1}), dy = normal(shape, 1, RandomKey{2});
    const Tensor all = dweight_of(z, layer, x, dy);
    for (const int fewer_or_more : {1, 2, 3, 5}) {
      set_num_threads(fewer_or_more);
      const Tensor again = dweight_of(z, layer, x, dy);
      set_num_threads(threads);
      CHECK(testing::bit_difference(again, all) == "");
    }
  }
}

}  // namespace brim
