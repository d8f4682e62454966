// Convolutions in bfloat16 and their data gradients, which a processor's matrix unit makes where
// there is one (ops/cpu/amx_data.h): the exact sums, rounded once, on any number of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "brim/base/instructions.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/onednn.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/convolution.h"
#include "brim/tests/support/whole_numbers.h"

namespace brim {
namespace {

using testing::ConvolutionLayer;

Tensor forward(const ConvolutionLayer& layer, const Tensor& x, const Tensor& weight,
               const Tensor& bias) {
  Tensor y = empty(conv2d_shape(layer.x, layer.weight, layer.options), {.dtype = x.dtype()});
  launch(kernel::conv2d, {x, weight, bias}, {y}, layer.options);
  return y;
}
Tensor data_gradient(const ConvolutionLayer& layer, const Tensor& dy, const Tensor& weight) {
  Tensor dx = empty(layer.x, {.dtype = dy.dtype()});
  launch(kernel::conv2d_backward_data, {dy, weight}, {dx}, layer.options);
  return dx;
}

Tensor wide(const Tensor& tensor) {
  return tensor.defined() ? convert_to(tensor, {.dtype = Dtype::float64}) : tensor;
}
Tensor narrow(const Tensor& tensor) { return convert_to(tensor, {.dtype = Dtype::bfloat16}); }

/// Of whole numbers, against float64.
void check_exact(const ConvolutionLayer& layer) {
  CAPTURE(to_string(layer.x));
  CAPTURE(to_string(layer.weight));
  const auto numbers = [](const Shape& shape, uint64_t key) {
    return testing::whole_numbers(shape, Dtype::bfloat16, key);
  };
  const Tensor x = numbers(layer.x, 1), weight = numbers(layer.weight, 2);
  const Tensor dy = numbers(conv2d_shape(layer.x, layer.weight, layer.options), 3);
  for (const Tensor& bias : {Tensor(), numbers({layer.weight[0]}, 4)})
    CHECK(testing::bit_difference(forward(layer, x, weight, bias),
                                  narrow(forward(layer, wide(x), wide(weight), wide(bias)))) == "");
  CHECK(testing::bit_difference(data_gradient(layer, dy, weight),
                                narrow(data_gradient(layer, wide(dy), wide(weight)))) == "");
}

const std::vector<ConvolutionLayer> kLayers{
    // One pixel: whole tiles of pixels, not whole ones, channels that fill no tile.
    {{2, 8, 8, 64}, {64, 1, 1, 64}, {}},
    {{3, 7, 5, 40}, {50, 1, 1, 40}, {}},
    {{1, 48, 50, 96}, {32, 1, 1, 96}, {}},
    {{2, 9, 9, 17}, {16, 1, 1, 17}, {.padding = 1}},
    // More weights than stay in a cache, and pixels too deep to be read where they lie.
    {{4, 8, 8, 768}, {520, 1, 1, 768}, {}},
    // A stride, of which some pixels of x see nothing.
    {{5, 9, 8, 48}, {64, 1, 1, 48}, {.stride = 2}},
    {{2, 9, 9, 32}, {32, 3, 3, 32}, {.stride = 4}},
    // Windows: images in one piece, and in bands of rows.
    {{3, 7, 9, 40}, {50, 3, 3, 40}, {.padding = 1}},
    {{1, 60, 61, 128}, {40, 3, 3, 128}, {.padding = 1}},
    {{2, 60, 61, 96}, {64, 3, 3, 96}, {.stride = 2, .padding = 1}},
    {{3, 9, 7, 32}, {33, 3, 3, 32}, {.stride = 2, .padding = 1}},
    // Heights that are no widths, dilation, more padding than the window has.
    {{2, 13, 12, 17}, {20, 5, 3, 17}, {.stride = {3, 2}, .padding = {2, 1}}},
    {{2, 13, 12, 32}, {20, 3, 3, 32}, {.stride = {2, 1}, .padding = {3, 2}, .dilation = 2}},
    {{2, 16, 16, 32}, {32, 2, 2, 32}, {.stride = 2}},
    {{2, 5, 6, 32}, {32, 3, 3, 32}, {.padding = 4}}};

/// Else a library's kernels are there, or float32's by transforms, which round.
bool has_kernels() {
  if (instructions() == Instructions::x86_64_v4 && onednn::has_tiles()) return true;
  MESSAGE("skipped: data gradients by a matrix unit (this processor or build has none)");
  return false;
}

}  // namespace

TEST_CASE("conv2d: y and dx in bfloat16 are the exact sums, rounded once") {
  if (!has_kernels()) return;
  for (const ConvolutionLayer& layer : kLayers) check_exact(layer);
}

TEST_CASE("conv2d: dx in bfloat16 does not depend on the number of threads") {
  if (!has_kernels()) return;
  const int before = num_threads();
  for (const ConvolutionLayer& layer : kLayers) {
    CAPTURE(to_string(layer.x));
    CAPTURE(to_string(layer.weight));
    const auto numbers = [](const Shape& shape, uint64_t key) {
      return normal(shape, 1, RandomKey{key}, {.dtype = Dtype::bfloat16});
    };
    const Tensor weight = numbers(layer.weight, 2);
    const Tensor dy = numbers(conv2d_shape(layer.x, layer.weight, layer.options), 3);
    set_num_threads(1);
    const Tensor dx = data_gradient(layer, dy, weight);
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      CHECK(testing::bit_difference(data_gradient(layer, dy, weight), dx) == "");
    }
  }
  set_num_threads(before);
}

}  // namespace brim
