// Batch norm with its activation on the shapes of MobileNet V2 (batch 32) and ResNet-50 (batch 16):
// milliseconds of the fused kernels, forward and backward, the bytes per second that a perfect
// cache would have needed (three sweeps forward, five backward; a residual adds one and two), and
// the time of brim's own kernels one op after the other as a ratio of that. The two take turns. In
// bfloat16 what is per channel stays float32.
//
//   norm_bench [runs] [part of a shape's name] [f32|bf16]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "brim/ops/batch_norm.h"
#include "brim/ops/elementwise_kernels.h"
#include "brim/ops/op.h"

namespace brim {
namespace {

using kernel::BatchNormAttributes;
using Work = std::function<void()>;

struct Case {
  int64_t batch, channels, size;
  Activation activation;
  bool residual = false;
  Dtype dtype = Dtype::float32;

  std::string name() const {
    return fmt::format("{}@{} {}{}", channels, size, to_string(activation),
                       residual ? " + residual" : "");
  }
  Shape shape() const { return {batch, size, size, channels}; }
};

std::vector<Case> cases() {
  constexpr Activation kNone = Activation::none, kRelu = Activation::relu,
                       kRelu6 = Activation::relu6, kHardswish = Activation::hardswish;
  return {{32, 32, 112, kRelu6},      {32, 96, 112, kRelu6},      {32, 24, 56, kNone},
          {32, 144, 56, kRelu6},      {32, 192, 28, kRelu6},      {32, 576, 14, kRelu6},
          {32, 960, 7, kRelu6},       {16, 64, 112, kRelu},       {16, 64, 56, kRelu},
          {16, 256, 56, kRelu, true}, {16, 512, 28, kRelu, true}, {16, 2048, 7, kRelu, true},
          {32, 16, 112, kHardswish},  {32, 240, 28, kHardswish},  {32, 960, 7, kHardswish}};
}

/// Median seconds of each, one after the other in every round.
std::vector<double> medians(const std::vector<Work>& works, int runs) {
  std::vector<std::vector<double>> times(works.size());
  for (int run = -1; run < runs; ++run)
    for (size_t i = 0; i < works.size(); ++i) {
      auto start = std::chrono::steady_clock::now();
      works[i]();
      std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (run >= 0) times[i].push_back(took.count());
    }
  std::vector<double> result;
  for (auto& t : times) {
    std::ranges::nth_element(t, t.begin() + static_cast<std::ptrdiff_t>(t.size() / 2));
    result.push_back(t[t.size() / 2]);
  }
  return result;
}

struct Buffers {
  explicit Buffers(const Case& c) {
    const TensorOptions options{.dtype = c.dtype};
    auto random = [&](uint64_t key) { return uniform(c.shape(), -1, 2, RandomKey{key}, options); };
    Shape channels{c.channels};
    x = random(1);
    dy = random(2);
    if (c.residual) residual = random(3);
    if (c.residual) dresidual = empty(c.shape(), options);
    y = empty(c.shape(), options);
    dx = empty(c.shape(), options);
    middle = empty(c.shape(), options);
    weight = uniform(channels, -1, 2, RandomKey{4});
    bias = uniform(channels, -1, 2, RandomKey{5});
    dweight = empty(channels);
    dbias = empty(channels);
    mean = zeros(channels, {.dtype = Dtype::float64});
    variance = ones(channels, {.dtype = Dtype::float64});
  }
  Tensor x, dy, residual, dresidual, y, dx, middle, weight, bias, dweight, dbias, mean, variance;
};

Work fused_forward(const Case& c, const Buffers& b) {
  return [=] {
    launch(kernel::batch_norm_statistics, c.dtype, {b.x}, {b.mean, b.variance});
    launch(kernel::batch_norm, {b.x, b.weight, b.bias, b.mean, b.variance, b.residual}, {b.y},
           {.activation = c.activation});
  };
}

Work fused_backward(const Case& c, const Buffers& b) {
  bool by_x = c.activation != Activation::none && !c.residual;
  return [=] {
    launch(kernel::batch_norm_backward,
           {b.dy, b.x, b.weight, b.mean, b.variance, by_x ? b.bias : Tensor(),
            c.residual ? b.y : Tensor(), Tensor()},
           {b.dx, b.dweight, b.dbias, b.dresidual}, {.activation = c.activation});
  };
}

Work plain_forward(const Case& c, const Buffers& b) {
  return [=] {
    launch(kernel::batch_norm_statistics, c.dtype, {b.x}, {b.mean, b.variance});
    launch(kernel::batch_norm, {b.x, b.weight, b.bias, b.mean, b.variance, Tensor()}, {b.middle});
    if (c.residual) launch(kernel::add, {b.middle, b.residual}, {b.dx});
    if (c.activation == Activation::relu)
      launch(kernel::relu, {c.residual ? b.dx : b.middle}, {b.y});
    if (c.activation == Activation::relu6) launch(kernel::relu6, {b.middle}, {b.y});
    if (c.activation == Activation::hardswish) launch(kernel::hardswish, {b.middle}, {b.y});
  };
}

Work plain_backward(const Case& c, const Buffers& b) {
  return [=] {
    if (c.activation == Activation::relu) launch(kernel::relu_backward, {b.dy, b.y}, {b.middle});
    if (c.activation == Activation::relu6) launch(kernel::relu6_backward, {b.dy, b.y}, {b.middle});
    if (c.activation == Activation::hardswish)
      launch(kernel::hardswish_backward, {b.dy, b.x}, {b.middle});
    launch(kernel::batch_norm_backward,
           {c.activation == Activation::none ? b.dy : b.middle, b.x, b.weight, b.mean, b.variance,
            Tensor(), Tensor(), Tensor()},
           {b.dx, b.dweight, b.dbias, Tensor()});
  };
}

void report(const Case& c, const char* pass, const std::vector<double>& times, int sweeps) {
  double bytes = static_cast<double>(numel(c.shape()) * size_of(c.dtype) * sweeps);
  fmt::print("{:24} {:9} {:8.2f} {:8.1f} {:8.2f}\n", c.name(), pass, times[0] * 1e3,
             bytes / times[0] * 1e-9, times[1] / times[0]);
}

void compare(const Case& c, int runs) {
  Buffers b(c);
  std::vector<Work> forward{fused_forward(c, b), plain_forward(c, b)};
  std::vector<Work> backward{fused_backward(c, b), plain_backward(c, b)};
  report(c, "forward", medians(forward, runs), 3 + c.residual);
  report(c, "backward", medians(backward, runs), c.residual ? 7 : 5);
}

}  // namespace
}  // namespace brim

int main(int argc, char** argv) {
  int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  std::string part = argc > 2 ? argv[2] : "";
  const bool halves = argc > 3 && std::strcmp(argv[3], "bf16") == 0;
  fmt::print("{:24} {:9} {:>8} {:>8} {:>8}\n", "shape", "pass", "ms", "GB/s", "plain x");
  for (brim::Case c : brim::cases()) {
    if (halves) c.dtype = brim::Dtype::bfloat16;
    if (c.name().find(part) != std::string::npos) brim::compare(c, runs);
  }
}
