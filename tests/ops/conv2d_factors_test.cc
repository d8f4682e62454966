// The factors of a weight gradient that a convolution of few pixels gives: dy, and the windows
// under its pixels, copied side by side (im2col).
#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/core/launch.h"
#include "brim/ops/conv_shape.h"

using namespace brim;

namespace {

struct Layer {
  Shape x, weight;
  Conv2dOptions options;
};

/// The factors of a convolution's weight gradient, if they are given; else what `.grad()` has.
struct WeightGradient {
  Tensor whole;
  autograd::GradientFactors factors;
};

WeightGradient weight_gradient(const Layer& layer, bool takes_factors) {
  const Tensor x = normal(layer.x, 1, RandomKey{1});
  const Tensor weight = normal(layer.weight, 1, RandomKey{2}).set_requires_grad();
  const Tensor y = conv2d(x, weight, {}, layer.options);
  WeightGradient result;
  backward(y, {.grad = normal(y.shape(), 1, RandomKey{3}),
               .on_leaf_complete = [&](const Tensor& leaf) { result.whole = leaf.grad(); },
               .takes_factors = [&](const Tensor&) { return takes_factors; },
               .on_leaf_factors =
                   [&](const Tensor&, const autograd::GradientFactors& factors) {
                     result.factors = factors;
                   }});
  return result;
}

}  // namespace

TEST_CASE("conv2d_windows: the pixels under each window, zeros outside") {
  for (const Layer& layer : {Layer{{2, 3, 4, 5}, {1, 3, 2, 5}, {.padding = 1}},
                             Layer{{1, 7, 5, 3}, {1, 3, 3, 3}, {.stride = 2, .padding = 1}},
                             Layer{{1, 6, 6, 2}, {1, 2, 3, 2}, {.padding = 2, .dilation = 2}},
                             Layer{{2, 4, 4, 3}, {1, 1, 1, 3}, {.stride = 2}}}) {
    CAPTURE(to_string(layer.x));
    const Shape y = conv2d_shape(layer.x, layer.weight, layer.options);
    const ConvShape z(layer.x, layer.weight, y, layer.options);
    const Tensor x = normal(layer.x, 1, RandomKey{1});
    const Tensor got = full({z.n, z.p, z.q, z.r, z.s, z.c}, -7);
    launch(kernel::conv2d_windows, {x}, {got}, layer.options);
    const float* at = got.data<float>();
    for (int64_t n = 0; n < z.n; ++n)
      for (int64_t pixel = 0; pixel < z.p * z.q; ++pixel)
        for (int64_t tap = 0; tap < z.r * z.s; ++tap)
          for (int64_t c = 0; c < z.c; ++c) {
            const int64_t h = pixel / z.q * z.stride.h - z.padding.h + tap / z.s * z.dilation.h;
            const int64_t w = pixel % z.q * z.stride.w - z.padding.w + tap % z.s * z.dilation.w;
            const bool is_inside = h >= 0 && h < z.h && w >= 0 && w < z.w;
            REQUIRE(*at++ ==
                    (is_inside ? x.data<float>()[((n * z.h + h) * z.w + w) * z.c + c] : 0));
          }
  }
}

TEST_CASE("conv2d: the factors of a weight gradient multiply to its bits") {
  for (const Layer& layer : {Layer{{1, 2, 2, 128}, {64, 3, 3, 128}, {.padding = 1}},
                             Layer{{2, 5, 4, 96}, {80, 3, 3, 96}, {.stride = 2, .padding = 1}},
                             Layer{{3, 2, 2, 264}, {258, 1, 1, 264}, {}},
                             Layer{{1, 7, 7, 128}, {520, 1, 1, 128}, {.stride = 2}}}) {
    CAPTURE(to_string(layer.x));
    const Tensor whole = weight_gradient(layer, false).whole;
    const WeightGradient given = weight_gradient(layer, true);
    CHECK_FALSE(given.whole.defined());
    REQUIRE(given.factors.a.defined());
    const int64_t rows = layer.weight[0], columns = whole.numel() / rows;
    const int64_t rank = given.factors.a.numel() / rows;
    REQUIRE(given.factors.b.numel() == rank * columns);
    const float *a = given.factors.a.data<float>(), *b = given.factors.b.data<float>();
    for (int64_t k = 0; k < rows; ++k)
      for (int64_t j = 0; j < columns; ++j) {
        float sum = 0;
        for (int64_t m = 0; m < rank; ++m) sum = std::fma(a[m * rows + k], b[m * columns + j], sum);
        REQUIRE(sum == whole.data<float>()[k * columns + j]);
      }
  }
}

TEST_CASE("conv2d: no factors of many pixels, nor where they take more than the gradient") {
  for (const Layer& layer : {Layer{{1, 5, 4, 128}, {64, 3, 3, 128}, {.padding = 1}},
                             Layer{{1, 4, 4, 16'384}, {4, 1, 1, 16'384}, {}}}) {
    CAPTURE(to_string(layer.x));
    const WeightGradient given = weight_gradient(layer, true);
    CHECK(given.whole.defined());
    CHECK_FALSE(given.factors.a.defined());
  }
}
