// Weight gradients of convolutions in bfloat16, which are summed from two images at a time: by the
// matrix unit of processors that have one (ops/cpu/amx_weight.h), or by dot products of pairs
// (ops/cpu/dot_weight.h).
#include <doctest/doctest.h>

#include "brim/base/instructions.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/dot_weight_layout.h"
#include "brim/ops/onednn.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/convolution.h"
#include "brim/tests/support/whole_numbers.h"

namespace brim {
namespace {

using testing::ConvolutionLayer;

Tensor weight_gradient(const ConvolutionLayer& layer, const Tensor& x, const Tensor& dy) {
  Tensor dweight = empty(layer.weight, {.dtype = x.dtype()});
  launch(kernel::conv2d_backward_weight, {x, dy}, {dweight}, layer.options);
  return dweight;
}

ConvShape shape_of(const ConvolutionLayer& layer) {
  return {layer.x, layer.weight, conv2d_shape(layer.x, layer.weight, layer.options), layer.options};
}

/// Of whole numbers, against float64.
void check_exact(const ConvolutionLayer& layer) {
  CAPTURE(to_string(layer.x));
  CAPTURE(to_string(layer.weight));
  const Tensor x = testing::whole_numbers(layer.x, Dtype::bfloat16, 1);
  const Tensor dy = testing::whole_numbers(conv2d_shape(layer.x, layer.weight, layer.options),
                                           Dtype::bfloat16, 2);
  const auto wide = [](const Tensor& t) { return convert_to(t, {.dtype = Dtype::float64}); };
  const Tensor expected = weight_gradient(layer, wide(x), wide(dy));
  CHECK(testing::bit_difference(weight_gradient(layer, x, dy),
                                convert_to(expected, {.dtype = Dtype::bfloat16})) == "");
}

const ConvolutionLayer kByDots[] = {
    {{16, 7, 7, 64}, {64, 3, 3, 64}, {.padding = 1}},
    // Odd images, channels and outputs that fill no vector; windows beyond the border.
    {{31, 8, 7, 72}, {45, 3, 3, 72}, {.padding = 1}},
    {{21, 8, 8, 64}, {32, 5, 3, 64}, {.padding = {2, 1}}},
    {{41, 13, 15, 80}, {34, 3, 3, 80}, {.stride = 2, .padding = 1}},
    {{20, 6, 6, 64}, {32, 3, 3, 64}, {.padding = 2, .dilation = 2}},
    {{24, 14, 7, 64}, {32, 3, 3, 64}, {.stride = {2, 1}, .padding = {0, 1}}},
    // One pixel, with and without a stride, and beside the image.
    {{20, 8, 8, 33}, {40, 1, 1, 33}, {}},
    {{18, 7, 7, 144}, {24, 1, 1, 144}, {}},
    {{25, 9, 11, 48}, {67, 1, 1, 48}, {.stride = 2}},
    {{12, 6, 6, 64}, {64, 1, 1, 64}, {.padding = 1}},
    {{26, 15, 15, 96}, {64, 1, 1, 96}, {.stride = 2, .padding = 1}},
    // Some rows at a time, the last of them fewer, and beyond the border on both sides.
    {{9, 59, 31, 48}, {20, 3, 3, 48}, {.padding = 1}},
    {{8, 121, 60, 32}, {64, 5, 5, 32}, {.stride = {3, 2}, .padding = 2}},
    {{9, 70, 70, 48}, {40, 1, 1, 48}, {.stride = 2}},
    {{9, 70, 70, 48}, {40, 3, 3, 48}, {.stride = 2, .padding = 1}},
    {{10, 47, 41, 40}, {72, 3, 3, 40}, {.padding = 3, .dilation = 3}},
    {{13, 41, 41, 96}, {100, 1, 1, 96}, {.padding = 1}},
    // One vector of channels.
    {{8, 30, 30, 16}, {16, 3, 3, 16}, {.padding = 1}},
    // A large gradient, of few pixels and of many.
    {{16, 2, 2, 272}, {520, 3, 3, 272}, {.padding = 1}},
    {{8, 31, 32, 272}, {264, 1, 1, 272}, {}},
    // Several images at a time, the last of them fewer.
    {{46, 8, 8, 512}, {96, 1, 1, 512}, {}},
    {{130, 8, 8, 256}, {32, 3, 3, 256}, {.padding = 1}}};

// Too long a row, large windows, too few images.
const ConvolutionLayer kOthers[] = {
    {{8, 2, 900, 16}, {16, 1, 1, 16}, {}},
    {{8, 9, 8, 128}, {32, 3, 3, 128}, {.padding = 1}},
    {{1, 20, 33, 48}, {64, 1, 1, 48}, {}},
    {{4, 40, 24, 32}, {64, 5, 5, 32}, {.stride = {3, 2}, .padding = 2}},
    {{5, 21, 19, 32}, {48, 3, 3, 32}, {.stride = 2, .padding = 3, .dilation = 3}},
    {{2, 18, 18, 96}, {100, 2, 2, 96}, {.stride = 2}}};

/// Are they brim's? A library's may be sums in another order with other threads, and float32's,
/// which stand in where bfloat16 is only stored, are of transforms, which round.
bool has_kernels() {
  if (instructions() == Instructions::x86_64_v4 && onednn::has_bfloat16()) return true;
  MESSAGE("skipped: the kernels for pairs of images (this processor or build has no use for them)");
  return false;
}

}  // namespace

TEST_CASE("conv2d: which weight gradients in bfloat16 go by dot products, on any processor") {
  for (const ConvolutionLayer& layer : kByDots) CHECK(cpu::dots::suits(shape_of(layer)));
  for (const ConvolutionLayer& layer : kOthers) CHECK_FALSE(cpu::dots::suits(shape_of(layer)));
}

TEST_CASE("conv2d: a weight gradient in bfloat16 is the exact sum, rounded once") {
  if (!has_kernels()) return;
  for (const ConvolutionLayer& layer : kByDots) check_exact(layer);
  for (const ConvolutionLayer& layer : kOthers) check_exact(layer);
}

TEST_CASE("conv2d: a weight gradient in bfloat16 does not depend on the number of threads") {
  if (!has_kernels()) return;
  const int before = num_threads();
  for (const ConvolutionLayer& layer :
       {ConvolutionLayer{{16, 7, 7, 64}, {64, 3, 3, 64}, {.padding = 1}},
        {{8, 30, 30, 16}, {16, 3, 3, 16}, {.padding = 1}},
        {{9, 70, 70, 48}, {40, 3, 3, 48}, {.stride = 2, .padding = 1}},
        {{8, 31, 32, 272}, {264, 1, 1, 272}, {}},
        {{17, 30, 33, 56}, {72, 1, 1, 56}, {}},
        {{16, 2, 2, 272}, {520, 3, 3, 272}, {.padding = 1}},
        {{130, 8, 8, 256}, {32, 3, 3, 256}, {.padding = 1}}}) {
    const Tensor x = normal(layer.x, 1, RandomKey{1}, {.dtype = Dtype::bfloat16});
    const Tensor dy = normal(conv2d_shape(layer.x, layer.weight, layer.options), 1, RandomKey{2},
                             {.dtype = Dtype::bfloat16});
    set_num_threads(1);
    const Tensor expected = weight_gradient(layer, x, dy);
    for (const int threads : {2, 3, 5, 9, 20}) {
      set_num_threads(threads);
      CHECK(testing::bit_difference(weight_gradient(layer, x, dy), expected) == "");
    }
  }
  set_num_threads(before);
}

}  // namespace brim
