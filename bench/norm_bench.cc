// Batch norm with its activation on the shapes of MobileNet V2 (batch 32) and ResNet-50 (batch 16):
// milliseconds of the fused kernels, forward and backward, the bytes per second that a perfect
// cache would have needed (three sweeps forward, five backward; a residual adds one and two), and
// two peers as ratios of their time to ours: brim's own kernels one op after the other, and oneDNN
// with its fused relu. The three take turns. In bfloat16 what is per channel stays float32.
//
//   norm_bench [runs] [part of a shape's name] [f32|bf16]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
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

/// oneDNN's batch norm: relu for any activation, no residual.
class OneDnn {
 public:
  OneDnn(const Case& c, const Buffers& b) : b_(b) {
    using dnnl::memory;
    auto flags = dnnl::normalization_flags::use_scale_shift;
    if (c.activation != Activation::none) flags |= dnnl::normalization_flags::fuse_norm_relu;
    const auto type = c.dtype == Dtype::bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
    memory::desc data({c.batch, c.channels, c.size, c.size}, type, memory::format_tag::nhwc);
    forward_desc_ = dnnl::batch_normalization_forward::primitive_desc(
        {dnnl::prop_kind::forward_training, data, 1e-5f, flags}, engine_);
    dnnl::batch_normalization_backward::primitive_desc backward_desc(
        {dnnl::prop_kind::backward, data, data, 1e-5f, flags}, engine_, forward_desc_);
    forward_ = dnnl::batch_normalization_forward(forward_desc_);
    backward_ = dnnl::batch_normalization_backward(backward_desc);
    auto own = [&](const memory::desc& desc) { return memory(desc, engine_); };
    auto view = [&](const Tensor& t) { return memory(data, engine_, t.data()); };
    memory mean = own(forward_desc_.mean_desc()), variance = own(forward_desc_.variance_desc());
    memory scale = own(forward_desc_.weights_desc()), dscale = own(forward_desc_.weights_desc());
    memory workspace = own(forward_desc_.workspace_desc());
    forward_args_ = {{DNNL_ARG_SRC, view(b.x)},     {DNNL_ARG_DST, view(b.y)},
                     {DNNL_ARG_MEAN, mean},         {DNNL_ARG_VARIANCE, variance},
                     {DNNL_ARG_SCALE_SHIFT, scale}, {DNNL_ARG_WORKSPACE, workspace}};
    backward_args_ = forward_args_;
    backward_args_.erase(DNNL_ARG_DST);
    backward_args_[DNNL_ARG_DIFF_DST] = view(b.dy);
    backward_args_[DNNL_ARG_DIFF_SRC] = view(b.dx);
    backward_args_[DNNL_ARG_DIFF_SCALE_SHIFT] = dscale;
  }
  void forward() { run(forward_, forward_args_); }
  void backward() { run(backward_, backward_args_); }

 private:
  using Args = std::unordered_map<int, dnnl::memory>;
  void run(const dnnl::primitive& primitive, const Args& args) {
    primitive.execute(stream_, args);
    stream_.wait();
  }

  Buffers b_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::batch_normalization_forward::primitive_desc forward_desc_;
  dnnl::primitive forward_, backward_;
  Args forward_args_, backward_args_;
};

void report(const Case& c, const char* pass, const std::vector<double>& times, int sweeps) {
  double bytes = static_cast<double>(numel(c.shape()) * size_of(c.dtype) * sweeps);
  fmt::print("{:24} {:9} {:8.2f} {:8.1f} {:8.2f}", c.name(), pass, times[0] * 1e3,
             bytes / times[0] * 1e-9, times[1] / times[0]);
  if (times.size() > 2) fmt::print(" {:8.2f}", times[2] / times[0]);
  fmt::print("\n");
}

void compare(const Case& c, int runs) {
  Buffers b(c);
  std::vector<Work> forward{fused_forward(c, b), plain_forward(c, b)};
  std::vector<Work> backward{fused_backward(c, b), plain_backward(c, b)};
  OneDnn peer(c, b);
  if (!c.residual) {
    forward.push_back([&] { peer.forward(); });
    backward.push_back([&] { peer.backward(); });
  }
  report(c, "forward", medians(forward, runs), 3 + c.residual);
  report(c, "backward", medians(backward, runs), c.residual ? 7 : 5);
}

}  // namespace
}  // namespace brim

int main(int argc, char** argv) {
  int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  std::string part = argc > 2 ? argv[2] : "";
  const bool halves = argc > 3 && std::strcmp(argv[3], "bf16") == 0;
  fmt::print("{:24} {:9} {:>8} {:>8} {:>8} {:>8}\n", "shape", "pass", "ms", "GB/s", "plain x",
             "oneDNN x");
  for (brim::Case c : brim::cases()) {
    if (halves) c.dtype = brim::Dtype::bfloat16;
    if (c.name().find(part) != std::string::npos) brim::compare(c, runs);
  }
}
