// The windows of a convolution, copied side by side (im2col).
#include <doctest/doctest.h>

#include "brim/core/launch.h"
#include "brim/ops/conv_shape.h"

using namespace brim;

namespace {

struct Layer {
  Shape x, weight;
  Conv2dOptions options;
};

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
