#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "brim/nn/creation.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/models/shufflenet_v2.h"
#include "brim/nn/models/unet.h"
#include "brim/nn/models/vgg.h"
#include "brim/tests/nn/model_golden.h"

using namespace brim;
using namespace brim::testing;

namespace {

std::unique_ptr<nn::Module> on_meta(const std::string& name) {
  return nn::make_model(name, {.seed = std::nullopt, .device = Device::meta()});
}

Tensor meta_image(int64_t batch, int64_t size) {
  return empty({batch, size, size, 3}, {.device = Device::meta()});
}

Tensor small_meta_image(const std::string& model, int64_t batch) {
  return meta_image(batch, read_golden(model).small_size());
}

std::shared_ptr<memory::Account> meta_account() {
  return std::make_shared<memory::Account>(Device::meta(), std::make_unique<memory::NullSource>(),
                                           memory::planner_named("direct"));
}

// Live bytes of activations, and their peak.
class ActivationPeak final : public memory::Recorder {
 public:
  int64_t live = 0, peak = 0;
  void allocated(const memory::Block& block) override {
    if (block.category != memory::Category::activations) return;
    live += block.bytes;
    peak = std::max(peak, live);
  }
  void released(const memory::Block& block) noexcept override {
    if (block.category == memory::Category::activations) live -= block.bytes;
  }
};

// Which op made and which one used each buffer last, and so the least peak that the order of the
// ops allows. Buffers go by their address, which the null source never gives twice.
class IdealPeak final : public autograd::OpObserver {
 public:
  void ran(const autograd::OpEvent& event) override {
    for (const Tensor& tensor : event.inputs) use(tensor);
    for (const Tensor& tensor : event.outputs) use(tensor);
    ++op_;
  }
  int64_t peak() const {
    int64_t most = 0;
    for (int op = 0; op < op_; ++op) {
      int64_t live = 0;
      for (const auto& [address, life] : lives_)
        if (life.first <= op && op <= life.last) live += life.bytes;
      most = std::max(most, live);
    }
    return most;
  }

 private:
  struct Life {
    int first, last;
    int64_t bytes;
  };
  void use(const Tensor& tensor) {
    if (!tensor.defined() || tensor.storage()->category() != memory::Category::activations) return;
    auto [at, isnew] =
        lives_.try_emplace(tensor.storage()->data(), Life{op_, op_, tensor.storage()->bytes()});
    at->second.last = op_;
  }

  std::map<void*, Life> lives_;
  int op_ = 0;
};

double worst(const Tensor& tensor) {
  double most = 0;
  for (double v : tensor.to_vector<double>())
    most = std::isfinite(v) ? std::max(most, std::abs(v)) : INFINITY;
  return most;
}

struct Ops final : autograd::OpObserver {
  std::multiset<std::string> names;
  void ran(const autograd::OpEvent& event) override { names.insert(event.op.name()); }
};

void check_step(nn::Module& model, int64_t size) {
  Tensor labels = from_vector<int64_t>({3, 7}, {2});
  Tensor logits = model(uniform({2, size, size, 3}, -1, 1, RandomKey{1}));
  CHECK(worst(logits) < 1e3);
  Tensor loss = cross_entropy(std::move(logits), labels);
  CHECK(std::isfinite(loss.item<double>()));
  backward(loss);
  for (const auto& [parameter, tensor] : model.named_parameters()) {
    CAPTURE(parameter);
    REQUIRE(tensor.grad().defined());
    CHECK(worst(tensor.grad()) < 1e6);
    CHECK(worst(tensor.grad()) > 0);
  }
  for (const auto& [buffer, tensor] : model.named_buffers()) {
    CAPTURE(buffer);
    CHECK(worst(tensor) < 1e6);
    if (buffer.ends_with("running_mean")) CHECK(worst(tensor) > 0);
  }
  model.eval();
  // After one step the running variances have a tenth of the batch's: each norm leaves its result
  // up to sqrt(10) too large, which adds up where initial weights are as large as Inception's.
  CHECK(std::isfinite(worst(model(uniform({1, size, size, 3}, -1, 1, RandomKey{1})))));
}

void check_peak(nn::Module& model, int64_t size, memory::Account& account) {
  model.eval();
  ActivationPeak measured;
  account.set_recorder(&measured);
  autograd::NoGradScope no_grad;
  {
    IdealPeak ideal;
    Tensor logits = model(meta_image(4, size));
    // Batch norm widens two vectors of running statistics while it runs.
    CHECK(measured.peak >= ideal.peak());
    CHECK(measured.peak <= ideal.peak() + 2 * 2048 * size_of(Dtype::float64));
    CHECK(measured.live == logits.storage()->bytes());
  }
  CHECK(measured.live == 0);
  account.set_recorder(nullptr);
}

void check_handles(nn::Module& model, Tensor x) {
  struct Handles final : autograd::OpObserver {
    std::vector<std::weak_ptr<Storage>> storages;
    void ran(const autograd::OpEvent& event) override {
      for (const Tensor& t : event.outputs)
        if (t.defined()) storages.push_back(t.storage());
    }
  } made;
  Tensor logits = model(std::move(x));
  for (const auto& weak : made.storages)
    if (auto storage = weak.lock(); storage && storage != logits.storage())
      CHECK(storage->handles() == 0);
}

}  // namespace

TEST_CASE("models: parameters, buffers and output shapes are torchvision's") {
  for (const std::string& name : nn::model_names()) {
    CAPTURE(name);
    Golden golden = read_golden(name);
    auto model = on_meta(name);
    CHECK(listed(model->named_parameters()) == golden.parameters);
    CHECK(listed(model->named_buffers()) == golden.buffers);
    REQUIRE(golden.outputs.size() == 2);
    for (const auto& [size, shape] : golden.outputs) {
      model->train();
      CHECK(to_string((*model)(meta_image(2, size)).shape()) == shape);
      model->eval();
      CHECK(to_string((*model)(meta_image(2, size)).shape()) == shape);
    }
  }
}

TEST_CASE("models: results and gradients are torchvision's") {
  int compared = 0;
  for (const std::string& name : nn::model_names()) {
    CAPTURE(name);
    Golden golden = read_golden(name);
    if (golden.logits.empty()) continue;
    auto model =
        nn::make_model(name, {.seed = std::nullopt, .dtype = Dtype::float64, .dropout = 0});
    check_results(*model, golden);
    ++compared;
  }
  CHECK(compared == 11);
}

TEST_CASE("models: parameter counts that papers and torchvision state") {
  auto count = [](const std::string& name, int64_t classes) {
    return nn::make_model(name,
                          {.classes = classes, .seed = std::nullopt, .device = Device::meta()})
        ->parameter_count();
  };
  CHECK(count("resnet18", 1000) == 11689512);
  CHECK(count("resnet50", 1000) == 25557032);
  CHECK(count("resnet152", 1000) == 60192808);
  CHECK(count("mobilenet_v2", 1000) == 3504872);
  CHECK(count("mobilenet_v1", 1000) == 4231976);
  CHECK(count("mobilenet_v3_small", 1000) == 2542856);
  CHECK(count("mobilenet_v3_large", 1000) == 5483032);
  CHECK(count("resnet20", 10) == 269722);
  CHECK(count("shufflenet_v2_x1_0", 1000) == 2278604);
  CHECK(count("densenet121", 1000) == 7978856);
  CHECK(count("alexnet", 1000) == 61100840);
  CHECK(count("vgg16", 1000) == 138357544);
  CHECK(count("vgg16_bn", 1000) == 138365992);
  CHECK(count("inception_v3", 1000) == 23834568);
}

TEST_CASE("models: every parameter gets a gradient") {
  for (const std::string& name : nn::model_names()) {
    CAPTURE(name);
    auto model = on_meta(name);
    Tensor labels = empty({2}, {.dtype = Dtype::int64, .device = Device::meta()});
    backward(cross_entropy((*model)(small_meta_image(name, 2)), labels));
    for (const auto& [parameter, tensor] : model->named_parameters()) {
      CAPTURE(parameter);
      CHECK(tensor.grad().defined());
    }
  }
}

TEST_CASE("models: a step on the CPU is finite, and moves running statistics") {
  for (const char* name : {"resnet18", "resnet20", "resnet50", "resnext50_32x4d", "mobilenet_v1",
                           "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large",
                           "shufflenet_v2_x1_0", "densenet121", "inception_v3", "alexnet"}) {
    CAPTURE(name);
    auto model = nn::make_model(name, {.classes = 10, .seed = 2});
    check_step(*model, read_golden(name).small_size());
  }
}

TEST_CASE("models: so is one of VGG, here with a smaller classifier") {
  for (const nn::VggLayout& layout : {nn::kVgg16, nn::kVgg16Bn}) {
    CAPTURE(layout.batch_norm);
    nn::Vgg model(layout, {.classes = 10, .hidden = 64});
    nn::initialize(model, 2);
    check_step(model, 32);
  }
}

TEST_CASE("models: no activation outlives its last use") {
  for (const std::string& name : nn::model_names()) {
    CAPTURE(name);
    auto account = meta_account();
    memory::AccountScope scope(account);
    check_peak(*on_meta(name), read_golden(name).small_size(), *account);
  }
  auto account = meta_account();
  memory::AccountScope scope(account);
  check_peak(*nn::make<nn::UNet>({.device = Device::meta()}), 64, *account);
}

TEST_CASE("models: after forward, activations are held by the tape alone") {
  for (const std::string& name : nn::model_names()) {
    CAPTURE(name);
    auto account = meta_account();
    memory::AccountScope scope(account);
    check_handles(*on_meta(name), small_meta_image(name, 4));
  }
  auto account = meta_account();
  memory::AccountScope scope(account);
  check_handles(*nn::make<nn::UNet>({.device = Device::meta()}), meta_image(4, 64));
}

TEST_CASE("models: a shortcut, a norm and a ReLU are one op") {
  Ops ops;
  auto model = on_meta("resnet50");
  (*model)(meta_image(1, 64));
  CHECK(ops.names.count("relu") == 0);
  CHECK(ops.names.count("add") == 0);
  CHECK(ops.names.count("batch_norm") == 50);
  CHECK(ops.names.count("conv2d") == 50);
  CHECK(ops.names.count("normalized_conv2d") == 3);  // the last of a block, of 256 pixels or more
}

TEST_CASE("models: the norm between two 3x3 convolutions is applied on the way into the second") {
  struct Case {
    std::string name;
    Shape images;
    size_t convolutions, on_the_way;
  };
  const Case cases[] = {{"resnet20", {128, 32, 32, 3}, 19, 9},
                        {"resnet18", {64, 64, 64, 3}, 20, 8},
                        // The last block's 4x4 pixels of 4 images are few for their weights.
                        {"vgg16_bn", {4, 64, 64, 3}, 13, 6}};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    Ops ops;
    auto model = on_meta(c.name);
    (*model)(empty(c.images, {.device = Device::meta()}));
    CHECK(ops.names.count("normalized_conv2d") == c.on_the_way);
    CHECK(ops.names.count("conv2d") + ops.names.count("normalized_conv2d") == c.convolutions);
  }
}

TEST_CASE("models: every ReLU behind a norm is part of it") {
  for (const auto& [name, others] :
       {std::pair{"shufflenet_v2_x1_0", 0}, std::pair{"densenet121", 0},
        std::pair{"inception_v3", 0}, std::pair{"vgg16_bn", 2}}) {  // VGG's classifier has two
    CAPTURE(name);
    Ops ops;
    auto model = on_meta(name);
    (*model)(small_meta_image(name, 2));
    CHECK(ops.names.count("relu") == static_cast<size_t>(others));
    CHECK(ops.names.count("batch_norm") > 0);
  }
}

TEST_CASE("models: joining and shuffling channels is one copy") {
  Ops ops;
  auto model = on_meta("shufflenet_v2_x1_0");
  (*model)(meta_image(2, 64));
  CHECK(ops.names.count("concat") == 16);
  CHECK(ops.names.count("permute") == 0);
}

TEST_CASE("models: options") {
  auto plain = nn::make_model("resnet18", {.classes = 5});
  CHECK(worst(plain->tensor("layer1.0.bn2.weight")) == 1);
  auto zero = nn::make_model("resnet18", {.classes = 5, .zero_init_residual = true});
  CHECK(worst(zero->tensor("layer1.0.bn2.weight")) == 0);
  CHECK(worst(zero->tensor("layer1.0.bn1.weight")) == 1);
  CHECK(zero->tensor("fc.weight").shape() == Shape{5, 512});
  auto again = nn::make_model("resnet18", {.classes = 5});
  CHECK(again->tensor("layer4.1.conv2.weight").to_vector<float>() ==
        plain->tensor("layer4.1.conv2.weight").to_vector<float>());
  auto mobile = nn::make_model("mobilenet_v2", {.classes = 5, .dropout = 0});
  Tensor x = uniform({2, 32, 32, 3}, -1, 1, RandomKey{1});
  CHECK((*mobile)(x).to_vector<float>() == (*mobile)(x).to_vector<float>());
  CHECK(mobile->tensor("classifier.1.bias").to_vector<float>() == std::vector<float>(5, 0.0f));
  auto dense = nn::make_model("densenet121", {.classes = 5});
  CHECK((*dense)(x).to_vector<float>() == (*dense)(x).to_vector<float>());
  auto dropping = nn::make_model("densenet121", {.classes = 5, .dropout = 0.2});
  CHECK((*dropping)(x).to_vector<float>() != (*dense)(x).to_vector<float>());
  nn::ShuffleNetV2Layout odd{{1, 1, 1}, {24, 115, 232, 464, 1024}};
  CHECK_THROWS_WITH_AS(nn::ShuffleNetV2{odd},
                       "ShuffleNetV2: expected stages of an even number of channels, got 115",
                       ValueError);
  auto unset = nn::make_model("resnet20", {.seed = std::nullopt});
  CHECK_THROWS_AS((*unset)(zeros({1, 32, 32, 3})), ValueError);
}

TEST_CASE("models: an unknown name gets the nearest one") {
  CHECK_THROWS_WITH_AS(nn::make_model("resnet81"),
                       "model: no model is called 'resnet81'; did you mean 'resnet18'?",
                       ValueError);
  CHECK_THROWS_AS(nn::make_model("resnet18", {.classes = 0}), ValueError);
}

TEST_CASE("models: images of the wrong kind are refused by the layer that sees it") {
  auto model = on_meta("resnet18");
  CHECK_THROWS_AS((*model)(empty({1, 3, 64, 64}, {.device = Device::meta()})), ShapeError);
  CHECK_THROWS_AS((*model)(empty({64, 64, 3}, {.device = Device::meta()})), ShapeError);
}
