// A convolution that applies the batch norm of its input on the way, on shapes of MobileNet V2
// (batch 32) and ResNet-50 (batch 16): milliseconds of the forward kernel, and as ratios of their
// time to it those of the two kernels that it replaces together and of the convolution alone. They
// take turns.
//
//   normalized_conv_bench [runs] [part of a shape's name]
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "brim/bench/timing.h"
#include "brim/ops/normalized_conv2d.h"
#include "brim/ops/op.h"

namespace brim {
namespace {

struct Case {
  int64_t batch, in, out, size, stride = 1;
  bool depthwise = false;
  Activation activation = Activation::relu6;

  std::string name() const {
    if (depthwise) return fmt::format("{}@{} depthwise /{}", in, size, stride);
    return fmt::format("{}-{}@{}", in, out, size);
  }
  Shape x() const { return {batch, size, size, in}; }
  Shape weight() const { return depthwise ? Shape{in, 3, 3, 1} : Shape{out, 1, 1, in}; }
  Conv2dOptions window() const {
    if (!depthwise) return {};
    return {.stride = stride, .padding = 1, .groups = in};
  }
};

const Case kCases[] = {{32, 96, 96, 112, 2, true},
                       {32, 144, 144, 56, 1, true},
                       {32, 144, 144, 56, 2, true},
                       {32, 192, 192, 28, 1, true},
                       {32, 384, 384, 14, 1, true},
                       {32, 576, 576, 14, 2, true},
                       {32, 960, 960, 7, 1, true},
                       {32, 32, 16, 112},
                       {32, 96, 24, 56},
                       {32, 144, 24, 56},
                       {32, 144, 32, 28},
                       {32, 192, 32, 28},
                       {32, 384, 64, 14},
                       {32, 576, 96, 14},
                       {32, 960, 160, 7},
                       {16, 64, 256, 56, 1, false, Activation::relu},
                       {16, 128, 512, 28, 1, false, Activation::relu},
                       {16, 256, 1024, 14, 1, false, Activation::relu},
                       {16, 512, 2048, 7, 1, false, Activation::relu}};

void compare(const Case& c, int runs) {
  const TensorOptions wide{.dtype = Dtype::float64};
  const Shape shape = conv2d_shape(c.x(), c.weight(), c.window()), channels{c.in};
  const Tensor x = uniform(c.x(), -1, 2, RandomKey{1}),
               weight = uniform(c.weight(), -1, 1, RandomKey{2}),
               gain = uniform(channels, 0.5, 2, RandomKey{3}),
               shift = uniform(channels, -1, 1, RandomKey{4});
  const Tensor given_mean = zeros(channels, wide), given_variance = ones(channels, wide);
  const Tensor between = empty(c.x()), y = empty(shape), mean = empty({c.out}, wide),
               variance = empty({c.out}, wide);
  const kernel::BatchNormAttributes norm{.activation = c.activation};
  const auto on_the_way = [&] {
    launch(kernel::normalized_conv2d, Dtype::float32,
           {x, gain, shift, given_mean, given_variance, weight, Tensor()}, {y, mean, variance},
           {c.window(), norm});
  };
  const auto convolution = [&] {
    launch(kernel::conv2d_with_statistics, Dtype::float32, {between, weight, Tensor()},
           {y, mean, variance}, c.window());
  };
  const auto in_two = [&] {
    launch(kernel::batch_norm, {x, gain, shift, given_mean, given_variance, Tensor()}, {between},
           norm);
    convolution();
  };
  on_the_way(), in_two();
  const bench::Pairs two = bench::in_pairs(runs, on_the_way, in_two);
  const bench::Pairs alone = bench::in_pairs(runs, on_the_way, convolution);
  fmt::print("{:24} {:8.2f} {:8.2f} ({:.2f} to {:.2f}) {:8.2f}\n", c.name(),
             two.first_seconds / runs * 1e3, two.ratio.median, two.ratio.low, two.ratio.high,
             alone.ratio.median);
}

}  // namespace
}  // namespace brim

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const std::string part = argc > 2 ? argv[2] : "";
  fmt::print("{:24} {:>8} {:>8} {:14} {:>8}\n", "shape", "ms", "two x", "", "alone x");
  for (const brim::Case& c : brim::kCases)
    if (c.name().find(part) != std::string::npos) brim::compare(c, runs);
}
