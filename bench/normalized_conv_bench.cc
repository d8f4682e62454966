// A convolution that applies the batch norm of its input on the way, on shapes of MobileNet V2
// (batch 32), ResNet-50 (batch 16), ResNet-20 (batch 128) and ResNet-18 (batch 64): milliseconds of
// the kernel, forward and where there is one backward, and as ratios of their time to it those of
// the kernels that it replaces, and forward of the convolution alone. They take turns.
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

/// What one kernel makes of the gradients.
enum class Backward { apart, at_once_but_weight, at_once };

struct Case {
  int64_t batch, in, out, size, stride = 1;
  bool depthwise = false;
  Activation activation = Activation::relu6;
  Backward of_others = Backward::apart;
  int64_t side = 1;  ///< of a window that is not depthwise

  Backward backward() const { return depthwise ? Backward::at_once : of_others; }
  std::string name() const {
    if (depthwise) return fmt::format("{}@{} depthwise /{}", in, size, stride);
    return fmt::format("{}-{}@{} {}x{}", in, out, size, side, side);
  }
  Shape x() const { return {batch, size, size, in}; }
  Shape weight() const { return depthwise ? Shape{in, 3, 3, 1} : Shape{out, side, side, in}; }
  Conv2dOptions window() const {
    if (!depthwise) return {.padding = side / 2};
    return {.stride = stride, .padding = 1, .groups = in};
  }
};

constexpr Activation kRelu = Activation::relu, kRelu6 = Activation::relu6;

const Case kCases[] = {{32, 96, 96, 112, 2, true},
                       {32, 144, 144, 56, 1, true},
                       {32, 144, 144, 56, 2, true},
                       {32, 192, 192, 28, 1, true},
                       {32, 384, 384, 14, 1, true},
                       {32, 576, 576, 14, 2, true},
                       {32, 960, 960, 7, 1, true},
                       {32, 32, 16, 112, 1, false, kRelu6, Backward::at_once},
                       {32, 96, 24, 56, 1, false, kRelu6, Backward::at_once},
                       {32, 144, 24, 56, 1, false, kRelu6, Backward::at_once},
                       {32, 144, 32, 28, 1, false, kRelu6, Backward::at_once},
                       {32, 192, 32, 28, 1, false, kRelu6, Backward::at_once},
                       {32, 384, 64, 14},
                       {32, 576, 96, 14},
                       {32, 960, 160, 7},
                       {16, 64, 256, 56, 1, false, kRelu, Backward::at_once},
                       {16, 128, 512, 28, 1, false, kRelu, Backward::at_once_but_weight},
                       {16, 256, 1024, 14, 1, false, kRelu},
                       {16, 512, 2048, 7, 1, false, kRelu},
                       {16, 64, 64, 56, 1, false, kRelu, Backward::at_once, 3},
                       {16, 128, 128, 28, 1, false, kRelu, Backward::at_once_but_weight, 3},
                       {16, 256, 256, 14, 1, false, kRelu, Backward::at_once_but_weight, 3},
                       {16, 512, 512, 7, 1, false, kRelu, Backward::at_once_but_weight, 3},
                       {128, 16, 16, 32, 1, false, kRelu, Backward::at_once, 3},
                       {128, 32, 32, 16, 1, false, kRelu, Backward::at_once, 3},
                       {128, 64, 64, 8, 1, false, kRelu, Backward::at_once, 3},
                       {64, 64, 64, 16, 1, false, kRelu, Backward::at_once, 3},
                       {64, 128, 128, 8, 1, false, kRelu, Backward::at_once_but_weight, 3},
                       {64, 256, 256, 4, 1, false, kRelu, Backward::at_once_but_weight, 3},
                       {64, 512, 512, 2, 1, false, kRelu, Backward::at_once_but_weight, 3}};

struct Buffers {
  Tensor x, between, weight, dweight, gain, dgain, shift, dshift, known_mean, known_variance;
  Tensor y, dy, mean, variance, gradient;

  explicit Buffers(const Case& c) {
    const TensorOptions wide{.dtype = Dtype::float64};
    const Shape of_y = conv2d_shape(c.x(), c.weight(), c.window()), channels{c.in};
    x = uniform(c.x(), -1, 2, RandomKey{1});
    between = empty(c.x());
    gradient = empty(c.x());
    weight = uniform(c.weight(), -1, 1, RandomKey{2});
    dweight = empty(c.weight());
    gain = uniform(channels, 0.5, 2, RandomKey{3});
    dgain = empty(channels);
    shift = uniform(channels, -1, 1, RandomKey{4});
    dshift = empty(channels);
    known_mean = zeros(channels, wide);
    known_variance = ones(channels, wide);
    y = empty(of_y);
    dy = uniform(of_y, -1, 1, RandomKey{5});
    mean = empty({c.out}, wide);
    variance = empty({c.out}, wide);
  }
};

void report(const Case& c, const char* pass, const bench::Pairs& apart, int runs) {
  fmt::print("{:24} {:9} {:8.2f} {:8.2f} ({:.2f} to {:.2f})", c.name(), pass,
             apart.first_seconds / runs * 1e3, apart.ratio.median, apart.ratio.low,
             apart.ratio.high);
}

void compare_forward(const Case& c, const Buffers& b, int runs) {
  const auto on_the_way = [&] {
    launch(kernel::normalized_conv2d,
           {b.x, b.gain, b.shift, b.known_mean, b.known_variance, b.weight, Tensor()},
           {b.y, b.mean, b.variance}, {c.window(), {.activation = c.activation}});
  };
  const auto convolution = [&] {
    launch(kernel::conv2d_with_statistics, {b.between, b.weight, Tensor()},
           {b.y, b.mean, b.variance}, c.window());
  };
  const auto apart = [&] {
    launch(kernel::batch_norm, {b.x, b.gain, b.shift, b.known_mean, b.known_variance, Tensor()},
           {b.between}, {.activation = c.activation});
    convolution();
  };
  on_the_way(), apart();
  report(c, "forward", bench::in_pairs(runs, on_the_way, apart), runs);
  fmt::print(" {:8.2f}\n", bench::in_pairs(runs, on_the_way, convolution).ratio.median);
}

void compare_backward(const Case& c, const Buffers& b, int runs) {
  const bool with_weight = c.backward() == Backward::at_once;
  const auto at_once = [&] {
    launch(kernel::normalized_conv2d_backward,
           {b.x, b.gain, b.shift, b.known_mean, b.known_variance, b.dy, b.weight},
           {b.gradient, b.dgain, b.dshift, with_weight ? b.dweight : Tensor()},
           {c.window(), {.activation = c.activation}});
  };
  const auto apart = [&] {
    if (with_weight)
      launch(kernel::conv2d_backward_weight, {b.between, b.dy}, {b.dweight}, c.window());
    launch(kernel::conv2d_backward_data, {b.dy, b.weight}, {b.gradient}, c.window());
    launch(kernel::batch_norm_backward,
           {b.gradient, b.x, b.gain, b.known_mean, b.known_variance, b.shift, Tensor(), Tensor()},
           {b.gradient, b.dgain, b.dshift, Tensor()}, {.activation = c.activation});
  };
  at_once(), apart();
  report(c, "backward", bench::in_pairs(runs, at_once, apart), runs);
  fmt::print("\n");
}

}  // namespace
}  // namespace brim

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const std::string part = argc > 2 ? argv[2] : "";
  fmt::print("{:24} {:9} {:>8} {:>8} {:14} {:>8}\n", "shape", "pass", "ms", "apart x", "",
             "alone x");
  for (const brim::Case& c : brim::kCases) {
    if (c.name().find(part) == std::string::npos) continue;
    const brim::Buffers buffers(c);
    brim::compare_forward(c, buffers, runs);
    if (c.backward() != brim::Backward::apart) brim::compare_backward(c, buffers, runs);
  }
}
