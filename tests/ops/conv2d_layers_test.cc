// Convolutions as large as those of real models, where other kernels run than in the spec.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/ops/concat.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/few_pixels.h"
#include "brim/ops/cpu/narrow_weight.h"
#include "brim/ops/cpu/pointwise.h"
#include "brim/ops/cpu/winograd.h"
#include "brim/ops/matmul.h"
#include "brim/ops/onednn.h"
#include "brim/ops/permute.h"
#include "brim/ops/reshape.h"
#include "brim/ops/slice.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/convolution.h"

namespace brim {
namespace {

using Layer = testing::ConvolutionLayer;
using Results = testing::ConvolutionResults;
using testing::differentiate;

Tensor map(const Tensor& x, double (*f)(double)) {
  auto values = x.to_vector<double>();
  std::ranges::transform(values, values.begin(), f);
  return from_vector(values, x.shape());
}

/// A sum of n products with unit roundoff u, that of float32 unless another is named, added one
/// after the other, has partial sums that walk at random up to R = sqrt(sum of squares), or
/// steadily up to the result f; each addition rounds off up to u |partial sum|, about u |partial
/// sum| / sqrt(3) on average. Five deviations of the whole are below 2 u sqrt(n) (R + |f|); 4 u
/// covers what else is rounded. `spread`: by how much R is larger than the root of `squares`.
void check_sums(const Tensor& got, const Tensor& expected, const Tensor& squares, double n,
                double u = 0x1p-24, double spread = 1) {
  auto values = expected.to_vector<double>(), allowed = squares.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i)
    allowed[i] =
        u * (4 + 2 * std::sqrt(n)) * (spread * std::sqrt(allowed[i]) + std::abs(values[i]));
  CHECK(testing::worst_error(got, values, allowed) == "");
}

/// By how much Winograd's method (ops/cpu/winograd.h) makes R larger: it adds up fewer terms, of
/// channels or of tiles, but larger ones, parts of which cancel out. Of numbers with variance 1,
/// one way across a tile y is a sum of A_ij m_j over j, where m_j has the variance |G_j|^2 |B_j|^2.
/// The squares of the terms, over the variance of y, are the most where padding is in the tile:
/// with 2 outputs 4 over 2 for a row of it, with 4 outputs 21.4 for two rows; for both ways they
/// are the square of that. For the weight's gradient they are the most in tiles whose outputs are
/// inside in part: of two, 3 for one that is; of four 14.3 for two, and more for one, but of such
/// tiles there is one among several.
double winograd_spread(int outputs_of_tile, ConvPass pass) {
  if (outputs_of_tile == 2) return pass == ConvPass::backward_weight ? 3 : 2;
  return pass == ConvPass::backward_weight ? 14.3 : 21.4;
}

/// The same of a pass in float32.
void check_pass(const ConvShape& z, ConvPass pass, const Tensor& got, const Tensor& expected,
                const Tensor& squares) {
  const bool of_weight = pass == ConvPass::backward_weight;
  const int64_t channels = pass == ConvPass::backward_data ? z.group_outputs() : z.group_channels();
  int64_t terms = of_weight ? z.pixels() : z.r * z.s * channels;
  double spread = 1;
  if (const int tile = cpu::winograd::outputs_of_tile(z, pass); tile > 0) {
    terms =
        of_weight ? z.n * ceil_div(z.p, int64_t{tile}) * ceil_div(z.q, int64_t{tile}) : channels;
    spread = winograd_spread(tile, pass);
  }
  check_sums(got, expected, squares, static_cast<double>(terms), 0x1p-24, spread);
}

constexpr ConvPass kPasses[] = {ConvPass::forward, ConvPass::backward_data,
                                ConvPass::backward_weight};

/// Float32 against float64 on a layer as large as in real models.
void check_layer(const Layer& layer) {
  CAPTURE(to_string(layer.x));
  CAPTURE(to_string(layer.weight));
  auto low = [](const Tensor& t) { return convert_to(t, {.dtype = Dtype::float32}); };
  auto high = [](const Tensor& t) { return convert_to(t, {.dtype = Dtype::float64}); };
  auto square = [](double v) { return v * v; };
  Shape shape = conv2d_shape(layer.x, layer.weight, layer.options);
  Tensor x = low(normal(layer.x, 1, RandomKey{1})),
         weight = low(normal(layer.weight, 1, RandomKey{2}));
  Tensor dy = low(normal(shape, 1, RandomKey{3}));
  Results got = differentiate(x, weight, dy, layer.options);
  Results expected = differentiate(high(x), high(weight), high(dy), layer.options);
  Results squares =
      differentiate(map(x, square), map(weight, square), map(dy, square), layer.options);
  ConvShape z(layer.x, layer.weight, shape, layer.options);
  check_pass(z, ConvPass::forward, got.y, expected.y, squares.y);
  check_pass(z, ConvPass::backward_data, got.dx, expected.dx, squares.dx);
  check_pass(z, ConvPass::backward_weight, got.dweight, expected.dweight, squares.dweight);
}

Conv2dOptions window(int64_t stride, int64_t padding, int64_t groups = 1) {
  return {.stride = stride, .padding = padding, .groups = groups};
}

}  // namespace

TEST_CASE("conv2d: layers of ResNet, float32 against float64") {
  check_layer({{1, 224, 224, 3}, {64, 7, 7, 3}, window(2, 3)});
  check_layer({{1, 56, 56, 64}, {64, 3, 3, 64}, window(1, 1)});
  check_layer({{1, 56, 56, 64}, {256, 1, 1, 64}, window(1, 0)});
  check_layer({{1, 28, 28, 128}, {128, 3, 3, 128}, window(2, 1)});
  check_layer({{2, 14, 14, 256}, {512, 1, 1, 256}, window(2, 0)});
  check_layer({{2, 7, 7, 512}, {512, 3, 3, 512}, window(1, 1)});
  check_layer({{2, 7, 7, 2048}, {512, 1, 1, 2048}, window(1, 0)});
  check_layer({{2, 14, 14, 128}, {128, 3, 3, 4}, window(1, 1, 32)});
}

TEST_CASE("conv2d: layers of MobileNets, float32 against float64") {
  check_layer({{1, 224, 224, 3}, {32, 3, 3, 3}, window(2, 1)});
  check_layer({{1, 112, 112, 32}, {32, 3, 3, 1}, window(1, 1, 32)});
  check_layer({{1, 112, 112, 16}, {96, 1, 1, 16}, window(1, 0)});
  check_layer({{1, 112, 112, 96}, {96, 3, 3, 1}, window(2, 1, 96)});
  check_layer({{2, 56, 56, 144}, {24, 1, 1, 144}, window(1, 0)});
  check_layer({{2, 56, 56, 144}, {144, 3, 3, 1}, window(1, 1, 144)});
  check_layer({{2, 14, 14, 576}, {576, 3, 3, 1}, window(2, 1, 576)});
  check_layer({{4, 7, 7, 960}, {960, 3, 3, 1}, window(1, 1, 960)});
  check_layer({{4, 7, 7, 320}, {1280, 1, 1, 320}, window(1, 0)});
  check_layer({{1, 20, 20, 40}, {40, 5, 5, 1}, window(2, 2, 40)});
  check_layer({{2, 28, 28, 120}, {120, 5, 5, 1}, window(1, 2, 120)});
  check_layer({{2, 56, 57, 72}, {72, 5, 5, 1}, window(2, 2, 72)});
  check_layer({{4, 7, 7, 960}, {960, 5, 5, 1}, window(1, 2, 960)});
}

TEST_CASE("conv2d: layers of ResNet with a few pixels, float32 against float64") {
  check_layer({{1, 4, 4, 256}, {256, 3, 3, 256}, window(1, 1)});
  check_layer({{1, 4, 4, 256}, {512, 1, 1, 256}, window(2, 0)});
  check_layer({{1, 2, 2, 512}, {512, 3, 3, 512}, window(1, 1)});
  check_layer({{1, 8, 8, 128}, {128, 3, 3, 128}, window(1, 1)});
  check_layer({{1, 16, 16, 64}, {128, 3, 3, 64}, window(2, 1)});
  check_layer({{1, 7, 7, 2048}, {512, 1, 1, 2048}, window(1, 0)});
}

// Odd sizes leave tiles of Winograd's method half empty; channels that are no multiple of a panel's
// and more than a block of filters or a part of the weights has are cut in all ways.
TEST_CASE("conv2d: 3x3 layers by Winograd's method, float32 against float64") {
  const Layer layers[] = {{{20, 15, 17, 48}, {80, 3, 3, 48}, window(1, 1)},
                          {{16, 20, 19, 64}, {32, 3, 3, 64}, window(1, 0)},
                          {{14, 11, 12, 32}, {160, 3, 3, 32}, window(1, 2)},
                          {{8, 16, 16, 288}, {144, 3, 3, 288}, window(1, 1)},
                          {{256, 3, 4, 96}, {96, 3, 3, 96}, {.padding = {1, 2}}},
                          {{64, 30, 29, 16}, {16, 3, 3, 16}, window(1, 1)},
                          {{256, 6, 5, 48}, {80, 3, 3, 48}, window(1, 1)},
                          {{400, 2, 2, 288}, {144, 3, 3, 288}, window(1, 1)},
                          {{96, 8, 8, 32}, {160, 3, 3, 32}, window(1, 0)}};
  std::map<std::pair<ConvPass, int>, int> layers_of;  // a pass by tiles of so many outputs
  for (const Layer& layer : layers) {
    CAPTURE(to_string(layer.x));
    const Shape y = conv2d_shape(layer.x, layer.weight, layer.options);
    const ConvShape z(layer.x, layer.weight, y, layer.options);
    for (const ConvPass pass : kPasses) {
      CHECK(cpu::winograd::suits(z, pass));
      ++layers_of[{pass, cpu::winograd::outputs_of_tile(z, pass)}];
    }
    check_layer(layer);
  }
  for (const ConvPass pass : kPasses)
    for (const int tile : {2, 4}) CHECK(layers_of[{pass, tile}] >= 3);
}

// Channels that fill no vector, or panels of uneven width; a last block and a last tile that are
// not full; pixels that a stride leaves out, at the ends too.
TEST_CASE("conv2d: 1x1 layers as products of pixels, float32 against float64") {
  const Layer layers[] = {{{3, 61, 53, 24}, {150, 1, 1, 24}, window(1, 0)},
                          {{2, 71, 83, 83}, {9, 1, 1, 83}, window(1, 0)},
                          {{9, 62, 63, 40}, {72, 1, 1, 40}, window(2, 0)},
                          {{2, 127, 130, 16}, {33, 1, 1, 16}, {.stride = {1, 2}}}};
  for (const Layer& layer : layers) {
    CAPTURE(to_string(layer.x));
    const Shape y = conv2d_shape(layer.x, layer.weight, layer.options);
    const ConvShape z(layer.x, layer.weight, y, layer.options);
    for (const ConvPass pass : {ConvPass::forward, ConvPass::backward_data})
      CHECK(cpu::pointwise::suits(z, pass));
    check_layer(layer);
  }
}

namespace {

/// Checks that bits of y and dx depend neither on the number of threads nor on the batch, and those
/// of dweight, where they are brim's, not on the number of threads.
void check_bits(const Layer& layer, bool of_weight) {
  CAPTURE(to_string(layer.x));
  const Shape shape = conv2d_shape(layer.x, layer.weight, layer.options);
  const Tensor x = normal(layer.x, 1, RandomKey{1}), dy = normal(shape, 1, RandomKey{3});
  const Tensor weight = normal(layer.weight, 1, RandomKey{2});
  const Results all = differentiate(x, weight, dy, layer.options);
  const int threads = num_threads();
  for (const int fewer_or_more : {1, 2, 3, 5}) {
    set_num_threads(fewer_or_more);
    const Results again = differentiate(x, weight, dy, layer.options);
    set_num_threads(threads);
    CHECK(testing::bit_difference(again.y, all.y) == "");
    CHECK(testing::bit_difference(again.dx, all.dx) == "");
    if (of_weight) CHECK(testing::bit_difference(again.dweight, all.dweight) == "");
  }
  const int64_t middle = layer.x[0] / 2;
  for (const SliceOptions& half : {SliceOptions{.end = middle}, SliceOptions{.begin = middle}}) {
    const auto of = [&](const Tensor& t) { return contiguous(slice(t, 0, half)); };
    const Results part = differentiate(of(x), weight, of(dy), layer.options);
    CHECK(testing::bit_difference(part.y, of(all.y)) == "");
    CHECK(testing::bit_difference(part.dx, of(all.dx)) == "");
  }
}

/// With half as many images.
ConvShape half_of(const Layer& layer) {
  ConvShape z(layer.x, layer.weight, conv2d_shape(layer.x, layer.weight, layer.options),
              layer.options);
  z.n /= 2;
  return z;
}

constexpr ConvPass kOfImages[] = {ConvPass::forward, ConvPass::backward_data};

}  // namespace

TEST_CASE("conv2d: bits by Winograd's method do not depend on threads, nor y and dx on the batch") {
  for (const int64_t size : {14, 6}) {
    const Layer layer{{256, size, size - 1, 64}, {48, 3, 3, 64}, window(1, 1)};
    ConvShape whole = half_of(layer);
    whole.n *= 2;
    for (const ConvPass pass : kPasses)
      CHECK(cpu::winograd::outputs_of_tile(whole, pass) == (size == 6 ? 2 : 4));
    for (const ConvPass pass : kOfImages)
      CHECK(cpu::winograd::outputs_of_tile(half_of(layer), pass) == (size == 6 ? 2 : 4));
    check_bits(layer, true);
  }
}

TEST_CASE("conv2d: bits of 1x1 layers do not depend on threads, nor y and dx on the batch") {
  for (const Layer& layer : {Layer{{8, 46, 47, 40}, {56, 1, 1, 40}, window(1, 0)},
                             Layer{{8, 93, 92, 40}, {24, 1, 1, 40}, window(2, 0)}}) {
    for (const ConvPass pass : kOfImages) CHECK(cpu::pointwise::suits(half_of(layer), pass));
    check_bits(layer, false);
  }
}

TEST_CASE("conv2d: bits of few pixels do not depend on threads, nor y and dx on the batch") {
  for (const Layer& layer : {Layer{{2, 5, 5, 101}, {90, 3, 3, 101}, window(1, 1)},
                             Layer{{4, 4, 4, 264}, {258, 1, 1, 264}, window(1, 0)},
                             Layer{{2, 3, 2, 128}, {77, 3, 3, 128}, window(1, 1)},
                             Layer{{2, 2, 2, 72}, {301, 3, 3, 72}, window(1, 1)},
                             Layer{{2, 1, 3, 260}, {270, 1, 1, 260}, window(1, 0)}}) {
    ConvShape whole = half_of(layer);
    whole.n *= 2;
    REQUIRE(cpu::has_few_pixels(whole, cpu::kFewPixelsOfOneCall));
    check_bits(layer, false);
  }
}

// Small batches have kernels of their own (ops/cpu/few_pixels.h), the larger one has not.
TEST_CASE("conv2d: an image's results are those that it has in a larger batch") {
  const std::vector<Layer> layers = {
      {{1, 2, 2, 128}, {68, 3, 3, 128}, window(1, 1)},
      {{1, 3, 5, 90}, {83, 3, 3, 90}, window(1, 1)},
      {{2, 4, 4, 96}, {80, 3, 3, 96}, window(2, 1)},
      {{3, 2, 2, 264}, {258, 1, 1, 264}, window(1, 0)},
      {{1, 5, 4, 101}, {80, 3, 3, 101}, {.padding = 1, .dilation = 2}},
      {{5, 3, 3, 91}, {81, 3, 3, 91}, window(1, 0)},
      {{1, 8, 8, 101}, {83, 3, 3, 101}, window(1, 1)},
      {{1, 7, 7, 520}, {131, 1, 1, 520}, window(1, 0)},
      {{2, 9, 7, 90}, {90, 3, 3, 90}, window(2, 1)},
      {{1, 2, 3, 70}, {203, 3, 3, 70}, window(1, 1)},
      {{4, 1, 2, 260}, {263, 1, 1, 260}, window(1, 0)}};
  for (const Layer& layer : layers) {
    CAPTURE(to_string(layer.x));
    const TensorOptions options{.dtype = Dtype::float64};
    const Tensor weight = normal(layer.weight, 1, RandomKey{2}, options);
    auto padded = [](const Tensor& t) {
      Shape rest = t.shape();
      rest[0] = 20;
      return concat({t, zeros(rest, {.dtype = t.dtype()})}, 0);
    };
    auto of_batch = [&](const Tensor& x, const Tensor& w, const Tensor& dy) {
      Results all = differentiate(padded(x), w, padded(dy), layer.options);
      const SliceOptions first{.end = x.size(0)};
      return Results{slice(all.y, 0, first), slice(all.dx, 0, first), all.dweight};
    };
    const Shape shape = conv2d_shape(layer.x, layer.weight, layer.options);
    const ConvShape z(layer.x, layer.weight, shape, layer.options);
    REQUIRE(cpu::has_few_pixels(z, cpu::kFewPixelsOfOneCall));
    const Tensor x = normal(layer.x, 1, RandomKey{1}, options);
    const Tensor dy = normal(shape, 1, RandomKey{3}, options);
    const Results got = differentiate(x, weight, dy, layer.options);
    const Results expected = of_batch(x, weight, dy);
    auto square = [](double v) { return v * v; };
    const Results squares = of_batch(map(x, square), map(weight, square), map(dy, square));
    constexpr double kBoth = 2 * 0x1p-53;  // sums that are both rounded
    check_sums(got.y, expected.y, squares.y, static_cast<double>(z.window()), kBoth);
    check_sums(got.dx, expected.dx, squares.dx, static_cast<double>(z.r * z.s * z.group_outputs()),
               kBoth);
    check_sums(got.dweight, expected.dweight, squares.dweight, static_cast<double>(z.pixels()),
               kBoth);
  }
}

// Those of few channels on one side have a kernel of their own (ops/cpu/narrow_weight.h).
TEST_CASE("conv2d: the weight gradient of a 1x1 window is the product dy^T x") {
  const std::vector<Layer> layers = {{{1, 33, 40, 16}, {96, 1, 1, 16}, window(1, 0)},
                                     {{2, 30, 30, 144}, {24, 1, 1, 144}, window(1, 0)},
                                     {{5, 37, 30, 32}, {16, 1, 1, 32}, window(1, 0)},
                                     {{1, 36, 36, 8}, {8, 1, 1, 8}, window(1, 0)}};
  for (const Layer& layer : layers) {
    CAPTURE(to_string(layer.x));
    const TensorOptions options{.dtype = Dtype::float64};
    const Shape shape = conv2d_shape(layer.x, layer.weight, layer.options);
    const ConvShape z(layer.x, layer.weight, shape, layer.options);
    const Tensor x = normal(layer.x, 1, RandomKey{1}, options);
    const Tensor dy = normal(shape, 1, RandomKey{3}, options);
    auto product = [&](const Tensor& x, const Tensor& dy) {
      Tensor rows = permute(reshape(dy, {z.pixels(), z.k}), {1, 0});
      return reshape(matmul(rows, reshape(x, {z.pixels(), z.c})), layer.weight);
    };
    auto square = [](double v) { return v * v; };
    const Tensor weight = normal(layer.weight, 1, RandomKey{2}, options);
    check_sums(differentiate(x, weight, dy, layer.options).dweight, product(x, dy),
               product(map(x, square), map(dy, square)), static_cast<double>(z.pixels()),
               2 * 0x1p-53);
  }
}

// Of those of windows of few channels too, with some registers (narrow_weight_test.cc).
TEST_CASE("conv2d: first layers, float32 against float64") {
  for (const Layer& layer :
       {Layer{{3, 41, 37, 3}, {32, 3, 3, 3}, window(2, 1)},
        Layer{{2, 40, 40, 1}, {8, 5, 5, 1}, window(1, 2)},
        Layer{{1, 64, 63, 2}, {24, 3, 5, 2}, {.stride = {1, 2}, .padding = {0, 2}}},
        Layer{{2, 34, 30, 7}, {40, 3, 3, 7}, {.padding = {2, 1}, .dilation = {2, 1}}},
        Layer{{4, 50, 50, 4}, {16, 4, 4, 4}, window(3, 3)}}) {
    const Shape y = conv2d_shape(layer.x, layer.weight, layer.options);
    CHECK(cpu::has_narrow_weight<float>({layer.x, layer.weight, y, layer.options}));
    check_layer(layer);
  }
}

TEST_CASE("conv2d: the same bits in every run") {
  std::vector<Layer> layers = {{{2, 28, 28, 32}, {48, 3, 3, 32}, window(1, 1)},
                               {{2, 28, 28, 40}, {56, 1, 1, 40}, window(1, 0)},
                               {{2, 28, 28, 48}, {48, 3, 3, 1}, window(2, 1, 48)},
                               {{1, 3, 3, 96}, {96, 3, 3, 96}, window(1, 1)},
                               {{3, 28, 28, 144}, {24, 1, 1, 144}, window(1, 0)}};
  for (Dtype dtype : {Dtype::float32, Dtype::float64})
    for (const Layer& layer : layers) {
      TensorOptions options{.dtype = dtype};
      Shape shape = conv2d_shape(layer.x, layer.weight, layer.options);
      Tensor x = normal(layer.x, 1, RandomKey{1}, options);
      Tensor weight = normal(layer.weight, 1, RandomKey{2}, options);
      Tensor dy = normal(shape, 1, RandomKey{3}, options);
      Results first = differentiate(x, weight, dy, layer.options);
      for (int run = 0; run < 5; ++run) {
        Results again = differentiate(x, weight, dy, layer.options);
        CHECK(testing::bit_difference(again.y, first.y) == "");
        CHECK(testing::bit_difference(again.dx, first.dx) == "");
        CHECK(testing::bit_difference(again.dweight, first.dweight) == "");
      }
    }
}

TEST_CASE("conv2d: large depthwise results, stored past the caches, are those of their halves") {
  // x is just above 24 MiB, and so is y for stride 1; the halves are below.
  Shape shape{2, 57, 233, 240}, half{1, 57, 233, 240};
  Tensor x = uniform(shape, -1, 1, RandomKey{1});
  Tensor weight = uniform({240, 3, 3, 1}, -1, 1, RandomKey{2});
  auto half_of = [](const Tensor& whole, int64_t i) {
    Shape part = whole.shape();
    part[0] = 1;
    return Tensor(whole.storage(), {part, contiguous_strides(part), i * numel(part)});
  };
  for (int64_t stride : {1, 2}) {
    CAPTURE(stride);
    Conv2dOptions options = window(stride, 1, 240);
    Tensor dy = uniform(conv2d_shape(shape, weight.shape(), options), -1, 1, RandomKey{3});
    Results whole = differentiate(x, weight, dy, options);
    for (int64_t i : {0, 1}) {
      Results part = differentiate(half_of(x, i), weight, half_of(dy, i), options);
      CHECK(testing::bit_difference(clone(half_of(whole.y, i)), part.y) == "");
      CHECK(testing::bit_difference(clone(half_of(whole.dx, i)), part.dx) == "");
    }
  }
}

}  // namespace brim
