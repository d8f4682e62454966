// Convolutions of ResNet-50 (batch 16) and MobileNet V2 and V3 (batch 32) at 224x224, of ResNet-20
// (batch 64) at 32x32 and of ResNet-18 (batch 1) at 64x64, layer by layer: milliseconds and GFLOP/s
// (depthwise: GB/s of activations) of the three passes, as the kernel table runs them, and beside
// them through oneDNN and in float32, but for depthwise ones, through brim's own matrix products
// (`generic`). `statistics`: forward and then the sweep of a batch norm's statistics, over forward
// that gathers them. Sums are of all layers of the model; where oneDNN has no implementation, the
// table's time counts for it.
//
//   conv_bench [resnet50|mobilenet_v2|mobilenet_v3|resnet20|resnet18|all] [runs]
//   [part of a layer's name] [f32|bf16] [batch]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "brim/core/tensor.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/conv2d_generic.h"
#include "brim/ops/onednn.h"
#include "brim/ops/op.h"

namespace brim {
namespace {

struct Layer {
  std::string name;
  Shape x, weight;
  Conv2dOptions options;
  int count = 1;  // of such layers in the model
};

Layer layer(int64_t batch, int64_t size, int64_t c, int64_t k, int64_t r, int64_t stride,
            bool depthwise = false) {
  std::string name = fmt::format("{}{}x{} {}-{}@{}{}", depthwise ? "dw " : "", r, r, c, k, size,
                                 stride == 1 ? "" : " /" + std::to_string(stride));
  return {name,
          {batch, size, size, c},
          {k, r, r, depthwise ? 1 : c},
          {.stride = stride, .padding = r / 2, .groups = depthwise ? c : 1}};
}

/// Adds a layer, counting it with its like.
void add(std::vector<Layer>& model, const Layer& one) {
  for (Layer& other : model)
    if (other.name == one.name) {
      ++other.count;
      return;
    }
  model.push_back(one);
}

std::vector<Layer> resnet50(int64_t batch) {
  std::vector<Layer> model{layer(batch, 224, 3, 64, 7, 2)};
  int64_t in = 64, size = 56, blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int64_t block = 0, width = int64_t{64} << stage; block < blocks[stage]; ++block) {
      int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      add(model, layer(batch, size, in, width, 1, 1));
      add(model, layer(batch, size, width, width, 3, stride));
      add(model, layer(batch, size / stride, width, 4 * width, 1, 1));
      if (block == 0) add(model, layer(batch, size, in, 4 * width, 1, stride));
      size /= stride;
      in = 4 * width;
    }
  return model;
}

std::vector<Layer> mobilenet_v2(int64_t batch) {
  struct Stage {
    int64_t expand, channels, blocks, stride;
  };
  std::vector<Layer> model{layer(batch, 224, 3, 32, 3, 2)};
  int64_t in = 32, size = 112;
  for (Stage s : {Stage{1, 16, 1, 1},
                  {6, 24, 2, 2},
                  {6, 32, 3, 2},
                  {6, 64, 4, 2},
                  {6, 96, 3, 1},
                  {6, 160, 3, 2},
                  {6, 320, 1, 1}})
    for (int64_t block = 0; block < s.blocks; ++block) {
      int64_t stride = block == 0 ? s.stride : 1, wide = in * s.expand;
      if (s.expand > 1) add(model, layer(batch, size, in, wide, 1, 1));
      add(model, layer(batch, size, wide, wide, 3, stride, true));
      size /= stride;
      add(model, layer(batch, size, wide, s.channels, 1, 1));
      in = s.channels;
    }
  add(model, layer(batch, 7, 320, 1280, 1, 1));
  return model;
}

/// The depthwise ones of MobileNet V3 (large).
std::vector<Layer> mobilenet_v3(int64_t batch) {
  struct Block {
    int64_t size, channels, window, stride;
  };
  std::vector<Layer> model;
  for (Block b : {Block{112, 16, 3, 1},
                  {112, 64, 3, 2},
                  {56, 72, 3, 1},
                  {56, 72, 5, 2},
                  {28, 120, 5, 1},
                  {28, 120, 5, 1},
                  {28, 240, 3, 2},
                  {14, 200, 3, 1},
                  {14, 184, 3, 1},
                  {14, 184, 3, 1},
                  {14, 480, 3, 1},
                  {14, 672, 3, 1},
                  {14, 672, 5, 2},
                  {7, 960, 5, 1},
                  {7, 960, 5, 1}})
    add(model, layer(batch, b.size, b.channels, b.channels, b.window, b.stride, true));
  return model;
}

std::vector<Layer> resnet20(int64_t batch) {
  std::vector<Layer> model{layer(batch, 32, 3, 16, 3, 1)};
  int64_t in = 16, size = 32;
  for (int64_t width : {16, 32, 64})
    for (int block = 0; block < 3; ++block) {
      int64_t stride = width / in;
      add(model, layer(batch, size, in, width, 3, stride));
      size /= stride;
      add(model, layer(batch, size, width, width, 3, 1));
      in = width;
    }
  return model;
}

/// The last stages have few pixels, and move weights (ops/cpu/few_pixels.h).
std::vector<Layer> resnet18(int64_t batch) {
  std::vector<Layer> model{layer(batch, 64, 3, 64, 7, 2)};
  int64_t in = 64, size = 16;
  for (int64_t width : {64, 128, 256, 512})
    for (int block = 0; block < 2; ++block) {
      const int64_t stride = width / in;
      add(model, layer(batch, size, in, width, 3, stride));
      if (stride > 1) add(model, layer(batch, size, in, width, 1, stride));
      size /= stride;
      add(model, layer(batch, size, width, width, 3, 1));
      in = width;
    }
  return model;
}

double seconds(const std::function<void()>& work, int runs) {
  std::vector<double> times;
  work();
  for (int i = 0; i < runs; ++i) {
    auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// Scratch for kernels that are called without the table.
class Bytes {
 public:
  explicit Bytes(int64_t bytes)
      : data_(std::aligned_alloc(64, static_cast<size_t>(bytes + 64) / 64 * 64)) {}
  ~Bytes() { std::free(data_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  void* data() const { return data_; }

 private:
  void* data_;
};

class Bench {
 public:
  Bench(int runs, Dtype dtype) : runs_(runs), dtype_(dtype) {}

  void run(const std::vector<Layer>& model, const char* part) {
    fmt::print("{:<22} n {:>42} {:>34} {:>34} {:>11}\n", "layer",
               "forward: ms, rate, oneDNN, generic ms", "data", "weight", "statistics");
    Times sums[3];
    for (const Layer& one : model) {
      if (one.name.find(part) == std::string::npos) continue;
      fmt::print("{:<22} {}      ", one.name, one.count);
      for (int pass = 0; pass < 3; ++pass) {
        const Times times = measure(one, pass);
        sums[pass].ours += one.count * times.ours;
        sums[pass].library += one.count * times.library;
      }
      if (dtype_ == Dtype::float32) fmt::print("{:>9.2f}", gain_of_statistics(one));
      fmt::print("\n");
    }
    Times all;
    fmt::print("{:<29}", "sum, and of oneDNN");
    for (const Times& sum : sums) {
      fmt::print("{:>9.1f} {:>14.1f}{:>11}", sum.ours * 1e3, sum.library * 1e3, "");
      all.ours += sum.ours;
      all.library += sum.library;
    }
    fmt::print("  all {:.1f}, {:.1f}\n\n", all.ours * 1e3, all.library * 1e3);
  }

 private:
  // Seconds. Where oneDNN has no implementation, those of the kernel table stand for its own.
  struct Times {
    double ours = 0, library = 0;
  };

  Times measure(const Layer& one, int pass) {
    Shape shape = conv2d_shape(one.x, one.weight, one.options);
    ConvShape z(one.x, one.weight, shape, one.options);
    // The images themselves want no gradient.
    if (pass == 1 && z.c == 3) {
      fmt::print("{:>35}", "-");
      return {};
    }
    const TensorOptions options{.dtype = dtype_};
    Tensor x = normal(one.x, 1, RandomKey{1}, options);
    Tensor weight = normal(one.weight, 1, RandomKey{2}, options);
    Tensor y = normal(shape, 1, RandomKey{3}, options);
    double time = seconds(
        [&] {
          if (pass == 0) launch(kernel::conv2d, {x, weight, Tensor()}, {y}, one.options);
          if (pass == 1) launch(kernel::conv2d_backward_data, {y, weight}, {x}, one.options);
          if (pass == 2) launch(kernel::conv2d_backward_weight, {x, y}, {weight}, one.options);
        },
        runs_);
    const double bytes = static_cast<double>(size_of(dtype_));
    double work = z.is_depthwise() ? bytes * static_cast<double>(x.numel() + y.numel())
                                   : 2.0 * static_cast<double>(y.numel() * z.window());
    fmt::print("{:>9.2f} {:>7.1f}", time * 1e3, work / time * 1e-9);
    const bool is_wide = dtype_ == Dtype::float32;
    // The weight's gradient is float32 in bfloat16 too.
    const Tensor dweight = empty(one.weight);
    const double by_library =
        library(z, pass, x.data(), (pass == 2 ? dweight : weight).data(), y.data());
    fmt::print("{:>7.2f}", by_library * 1e3);
    if (is_wide && !z.is_depthwise())
      fmt::print("{:>9.2f}  ",
                 generic(z, pass, x.data<float>(), weight.data<float>(), y.data<float>()) * 1e3);
    else
      fmt::print("{:>11}", "");
    return {time, std::isnan(by_library) ? time : by_library};
  }

  double gain_of_statistics(const Layer& one) {
    const Shape shape = conv2d_shape(one.x, one.weight, one.options);
    const TensorOptions wide{.dtype = Dtype::float64};
    const Tensor x = normal(one.x, 1, RandomKey{1}), weight = normal(one.weight, 1, RandomKey{2});
    const Tensor y = empty(shape), mean = empty({shape[3]}, wide), var = empty({shape[3]}, wide);
    const double apart = seconds(
        [&] {
          launch(kernel::conv2d, {x, weight, Tensor()}, {y}, one.options);
          launch(kernel::batch_norm_statistics, y.dtype(), {y}, {mean, var});
        },
        runs_);
    const double together = seconds(
        [&] {
          launch(kernel::conv2d_with_statistics, y.dtype(), {x, weight, Tensor()}, {y, mean, var},
                 one.options);
        },
        runs_);
    return apart / together;
  }

  /// NaN where the library has none.
  double library(const ConvShape& z, int pass, void* x, void* weight, void* y) {
    constexpr ConvPass kPasses[] = {ConvPass::forward, ConvPass::backward_data,
                                    ConvPass::backward_weight};
    const auto convolution =
        onednn::find_convolution(z, kPasses[pass], /*with_bias=*/false, dtype_);
    if (convolution == nullptr) return std::nan("");
    Bytes scratch(onednn::scratch_bytes(*convolution));
    const void* first = pass == 1 ? y : x;
    const void* second = pass == 2 ? y : weight;
    void* result = pass == 0 ? y : pass == 1 ? x : weight;
    return seconds(
        [&] { onednn::run(*convolution, first, second, nullptr, result, scratch.data()); }, runs_);
  }

  double generic(const ConvShape& z, int pass, float* x, float* weight, float* y) {
    Bytes scratch(std::max({cpu::conv2d_generic_scratch<float>(z),
                            cpu::conv2d_generic_backward_data_scratch<float>(z),
                            cpu::conv2d_generic_backward_weight_scratch<float>(z)}));
    return seconds(
        [&] {
          if (pass == 0) cpu::conv2d_generic<float>(z, x, weight, nullptr, y, scratch.data());
          if (pass == 1) cpu::conv2d_generic_backward_data<float>(z, y, weight, x, scratch.data());
          if (pass == 2)
            cpu::conv2d_generic_backward_weight<float>(z, x, y, weight, scratch.data());
        },
        runs_);
  }

  int runs_;
  Dtype dtype_;
};

struct Model {
  const char *name, *title;
  std::vector<Layer> (*layers)(int64_t batch);
  int64_t batch;
};

int main_with(const std::string& wanted, int runs, const char* part, Dtype dtype, int64_t batch) {
  constexpr Model kModels[] = {{"resnet50", "ResNet-50", resnet50, 16},
                               {"mobilenet_v2", "MobileNet V2", mobilenet_v2, 32},
                               {"mobilenet_v3", "MobileNet V3", mobilenet_v3, 32},
                               {"resnet20", "ResNet-20", resnet20, 64},
                               {"resnet18", "ResNet-18", resnet18, 1}};
  Bench bench(std::max(runs, 1), dtype);
  bool known = false;
  for (const Model& model : kModels) {
    if (wanted != "all" && wanted != model.name) continue;
    known = true;
    const int64_t images = batch > 0 ? batch : model.batch;
    fmt::print("{}, batch {}\n", model.title, images);
    bench.run(model.layers(images), part);
  }
  if (!known)
    fmt::print(stderr,
               "conv_bench: expected resnet50, mobilenet_v2, mobilenet_v3, resnet20, resnet18 or "
               "all\n");
  return known ? 0 : 1;
}

}  // namespace
}  // namespace brim

int main(int argc, char** argv) {
  return brim::main_with(
      argc > 1 ? argv[1] : "all", argc > 2 ? std::atoi(argv[2]) : 5, argc > 3 ? argv[3] : "",
      argc > 4 && std::strcmp(argv[4], "bf16") == 0 ? brim::Dtype::bfloat16 : brim::Dtype::float32,
      argc > 5 ? std::atoi(argv[5]) : 0);
}
