#include "brim/nn/models/inception_v3.h"

#include <string>

#include "brim/ops/avg_pool2d.h"
#include "brim/ops/concat.h"
#include "brim/ops/max_pool2d.h"

namespace brim::nn {
namespace {

// torchvision draws from a normal distribution that it cuts off at +-2, which with this deviation
// leaves everything.
constexpr double kDeviation = 0.1, kAuxiliaryDeviation = 0.001;

struct Window {
  Pair kernel = 1;
  Pair stride = 1;
  Pair padding = 0;
};

// Convolution, norm and ReLU.
class InceptionConv final : public Module {
 public:
  InceptionConv(int64_t in, int64_t out, const Window& window)
      : conv(in, out,
             {.kernel = window.kernel,
              .stride = window.stride,
              .padding = window.padding,
              .bias = false,
              .weight_init = init::normal(kDeviation)}),
        bn(out, {.epsilon = 0.001}) {
    register_modules({{"conv", conv}, {"bn", bn}});
  }
  Tensor forward(Tensor x) override {
    return bn(conv.for_norm(std::move(x)), {.activation = Activation::relu});
  }
  std::string_view kind() const override { return "InceptionConv"; }

  Conv2d conv;
  BatchNorm2d bn;
};

struct Conv {
  const char* name;
  int64_t out;
  Pair kernel;
  int64_t stride = 1;  // 1 keeps the image's size, 2 pads nothing
};
enum class Pool { none, average, maximum };
// A pooling, convolutions one after the other, then several on what the last one gave.
struct Branch {
  std::vector<Conv> chain;
  std::vector<Conv> ends = {};
  Pool pool = Pool::none;
};

// Branches side by side, joined in their order.
class InceptionBlock final : public Module {
 public:
  InceptionBlock(int64_t in, const std::vector<Branch>& branches) {
    for (const Branch& branch : branches) {
      Layers layers{.pool = branch.pool};
      int64_t channels = in;
      for (const Conv& conv : branch.chain) {
        layers.chain.push_back(add(channels, conv));
        channels = conv.out;
      }
      for (const Conv& conv : branch.ends) {
        layers.ends.push_back(add(channels, conv));
        channels_ += conv.out;
      }
      if (branch.ends.empty()) channels_ += channels;
      branches_.push_back(std::move(layers));
    }
  }

  Tensor forward(Tensor x) override {
    std::vector<Tensor> results;
    for (const Layers& branch : branches_) {
      Tensor y = &branch == &branches_.back() ? std::move(x) : x;
      y = pooled(std::move(y), branch.pool);
      for (Module* conv : branch.chain) y = (*conv)(std::move(y));
      for (Module* conv : branch.ends)
        results.push_back((*conv)(conv == branch.ends.back() ? std::move(y) : y));
      if (branch.ends.empty()) results.push_back(std::move(y));
    }
    return concat(std::move(results), -1, where());
  }
  std::string_view kind() const override { return "InceptionBlock"; }
  /// Of the result.
  int64_t channels() const { return channels_; }

 private:
  struct Layers {
    std::vector<Module*> chain = {}, ends = {};
    Pool pool;
  };

  Module* add(int64_t in, const Conv& conv) {
    Pair same{(conv.kernel.h - 1) / 2, (conv.kernel.w - 1) / 2};
    Window window{conv.kernel, conv.stride, conv.stride == 1 ? same : Pair(0)};
    return &register_module(conv.name, std::make_unique<InceptionConv>(in, conv.out, window));
  }
  Tensor pooled(Tensor x, Pool pool) const {
    switch (pool) {
      case Pool::average:
        return avg_pool2d(std::move(x), {.kernel = 3, .stride = 1, .padding = 1}, where());
      case Pool::maximum:
        return max_pool2d(std::move(x), {.kernel = 3, .stride = 2}, where());
      case Pool::none:
        break;
    }
    return x;
  }

  std::vector<Layers> branches_;
  int64_t channels_ = 0;
};

// Figures 5, 6 and 7 of the paper are A, C and E; figure 10 is B and D, which halve the image.
std::vector<Branch> block_a(int64_t pooled) {
  return {
      {.chain = {{"branch1x1", 64, 1}}},
      {.chain = {{"branch5x5_1", 48, 1}, {"branch5x5_2", 64, 5}}},
      {.chain = {{"branch3x3dbl_1", 64, 1}, {"branch3x3dbl_2", 96, 3}, {"branch3x3dbl_3", 96, 3}}},
      {.chain = {{"branch_pool", pooled, 1}}, .pool = Pool::average}};
}

std::vector<Branch> block_b() {
  return {{.chain = {{"branch3x3", 384, 3, 2}}},
          {.chain = {{"branch3x3dbl_1", 64, 1},
                     {"branch3x3dbl_2", 96, 3},
                     {"branch3x3dbl_3", 96, 3, 2}}},
          {.chain = {}, .pool = Pool::maximum}};
}

std::vector<Branch> block_c(int64_t narrow) {
  return {{.chain = {{"branch1x1", 192, 1}}},
          {.chain = {{"branch7x7_1", narrow, 1},
                     {"branch7x7_2", narrow, {1, 7}},
                     {"branch7x7_3", 192, {7, 1}}}},
          {.chain = {{"branch7x7dbl_1", narrow, 1},
                     {"branch7x7dbl_2", narrow, {7, 1}},
                     {"branch7x7dbl_3", narrow, {1, 7}},
                     {"branch7x7dbl_4", narrow, {7, 1}},
                     {"branch7x7dbl_5", 192, {1, 7}}}},
          {.chain = {{"branch_pool", 192, 1}}, .pool = Pool::average}};
}

std::vector<Branch> block_d() {
  return {{.chain = {{"branch3x3_1", 192, 1}, {"branch3x3_2", 320, 3, 2}}},
          {.chain = {{"branch7x7x3_1", 192, 1},
                     {"branch7x7x3_2", 192, {1, 7}},
                     {"branch7x7x3_3", 192, {7, 1}},
                     {"branch7x7x3_4", 192, 3, 2}}},
          {.chain = {}, .pool = Pool::maximum}};
}

std::vector<Branch> block_e() {
  return {{.chain = {{"branch1x1", 320, 1}}},
          {.chain = {{"branch3x3_1", 384, 1}},
           .ends = {{"branch3x3_2a", 384, {1, 3}}, {"branch3x3_2b", 384, {3, 1}}}},
          {.chain = {{"branch3x3dbl_1", 448, 1}, {"branch3x3dbl_2", 384, 3}},
           .ends = {{"branch3x3dbl_3a", 384, {1, 3}}, {"branch3x3dbl_3b", 384, {3, 1}}}},
          {.chain = {{"branch_pool", 192, 1}}, .pool = Pool::average}};
}

class Auxiliary final : public Module {
 public:
  Auxiliary(int64_t in, int64_t classes)
      : conv0(in, 128, {}),
        conv1(128, 768, {.kernel = 5}),
        fc(768, classes, {.weight_init = init::normal(kAuxiliaryDeviation)}) {
    register_modules({{"conv0", conv0}, {"conv1", conv1}, {"avgpool", avgpool}, {"fc", fc}});
  }
  Tensor forward(Tensor x) override {
    x = avg_pool2d(std::move(x), {.kernel = 5, .stride = 3}, where());
    return fc(avgpool(conv1(conv0(std::move(x)))));
  }
  std::string_view kind() const override { return "Auxiliary"; }

  InceptionConv conv0, conv1;
  GlobalAvgPool avgpool;
  Linear fc;
};

Tensor run(const std::vector<Module*>& parts, Tensor x) {
  for (Module* part : parts) x = (*part)(std::move(x));
  return x;
}

constexpr int64_t kFeatures = 2048;

}  // namespace

InceptionV3::InceptionV3(const InceptionV3Options& options)
    : dropout_(options.dropout),
      fc_(kFeatures, options.classes, {.weight_init = init::normal(kDeviation)}) {
  add_stem();
  add_blocks(options.classes, options.auxiliary);
  register_modules({{"avgpool", avgpool_}, {"dropout", dropout_}, {"fc", fc_}});
}

void InceptionV3::add_stem() {
  auto conv = [&](const char* name, int64_t in, int64_t out, const Window& window) {
    below_.push_back(&register_module(name, std::make_unique<InceptionConv>(in, out, window)));
  };
  auto pool = [&](const char* name) {
    below_.push_back(&register_module(
        name, std::make_unique<MaxPool2d>(MaxPool2dOptions{.kernel = 3, .stride = 2})));
  };
  conv("Conv2d_1a_3x3", 3, 32, {.kernel = 3, .stride = 2});
  conv("Conv2d_2a_3x3", 32, 32, {.kernel = 3});
  conv("Conv2d_2b_3x3", 32, 64, {.kernel = 3, .padding = 1});
  pool("maxpool1");
  conv("Conv2d_3b_1x1", 64, 80, {});
  conv("Conv2d_4a_3x3", 80, 192, {.kernel = 3});
  pool("maxpool2");
}

void InceptionV3::add_blocks(int64_t classes, bool auxiliary) {
  int64_t channels = 192;
  auto block = [&](const char* name, const std::vector<Branch>& branches) {
    auto& added = register_module(name, std::make_unique<InceptionBlock>(channels, branches));
    channels = added.channels();
    return &added;
  };
  below_.push_back(block("Mixed_5b", block_a(32)));
  below_.push_back(block("Mixed_5c", block_a(64)));
  below_.push_back(block("Mixed_5d", block_a(64)));
  below_.push_back(block("Mixed_6a", block_b()));
  below_.push_back(block("Mixed_6b", block_c(128)));
  below_.push_back(block("Mixed_6c", block_c(160)));
  below_.push_back(block("Mixed_6d", block_c(160)));
  below_.push_back(block("Mixed_6e", block_c(192)));
  if (auxiliary)
    auxiliary_ = &register_module("AuxLogits", std::make_unique<Auxiliary>(channels, classes));
  above_.push_back(block("Mixed_7a", block_d()));
  above_.push_back(block("Mixed_7b", block_e()));
  above_.push_back(block("Mixed_7c", block_e()));
}

Tensor InceptionV3::forward(Tensor x) {
  x = run(above_, run(below_, std::move(x)));
  return fc_(dropout_(avgpool_(std::move(x))));
}

InceptionV3::Scores InceptionV3::scores(Tensor x, Where where) {
  return call(where, [&] {
    x = run(below_, std::move(x));
    Scores scores;
    if (auxiliary_ != nullptr && training()) scores.auxiliary = (*auxiliary_)(x);
    x = run(above_, std::move(x));
    scores.logits = fc_(dropout_(avgpool_(std::move(x))));
    return scores;
  });
}

std::vector<std::string> InceptionV3::skipped_in_files() const {
  if (auxiliary_ != nullptr) return {};
  return {"AuxLogits"};
}

}  // namespace brim::nn
