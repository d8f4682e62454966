#include "brim/tests/recompute/zoo.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "brim/core/tensor.h"
#include "brim/nn/creation.h"
#include "brim/nn/models/alexnet.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/models/unet.h"
#include "brim/nn/models/vgg.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/instrumented.h"

namespace brim::testing {
namespace {

constexpr int64_t kClasses = 4, kHidden = 64;

/// [N,H,W,3] -> [N,classes].
struct MeanOfPixels final : nn::Module {
  MeanOfPixels() { register_module("net", net); }
  Tensor forward(Tensor x) override { return global_avg_pool(net(std::move(x))); }
  nn::UNet net{{.classes = kClasses, .channels = 16}};
};

std::unique_ptr<nn::Module> make_model(const std::string& name, Dtype dtype, Device device) {
  nn::CreationScope scope({.dtype = dtype, .device = device});
  auto small_vgg = [](const nn::VggLayout& layout) {
    return std::make_unique<nn::Vgg>(layout,
                                     nn::VggOptions{.classes = kClasses, .hidden = kHidden});
  };
  if (name == "alexnet")
    return std::make_unique<nn::AlexNet>(
        nn::AlexNetOptions{.classes = kClasses, .hidden = kHidden});
  if (name == "vgg16") return small_vgg(nn::kVgg16);
  if (name == "vgg16_bn") return small_vgg(nn::kVgg16Bn);
  if (name == "unet") return std::make_unique<MeanOfPixels>();
  return nn::make_model(
      name, {.classes = kClasses, .seed = std::nullopt, .dtype = dtype, .device = device});
}

/// Of models, drawn once for all trainings of one: that takes as long as some updates.
class InitialValues {
 public:
  void give(nn::Module& model, const ZooTraining& training) {
    const std::string name = fmt::format("{} in {}", training.name, to_string(training.dtype));
    const Tensors tensors = tensors_of(model);
    if (name == name_) {
      for (size_t i = 0; i < tensors.size(); ++i) copy_into(tensors[i], values_[i]);
      return;
    }
    nn::initialize(model, /*seed=*/1);
    memory::AccountScope apart(account_);
    values_.clear();
    for (const Tensor& each : tensors) values_.push_back(clone(each));
    name_ = name;
  }

 private:
  static Tensors tensors_of(const nn::Module& model) {
    Tensors tensors;
    for (const auto& named : {model.named_parameters(), model.named_buffers()})
      for (const nn::NamedTensor& each : named) tensors.push_back(each.tensor);
    return tensors;
  }

  std::shared_ptr<memory::Account> account_ = memory::capped_host_account("direct");
  std::string name_;
  Tensors values_;
};

}  // namespace

ZooTraining zoo_training(const std::string& name) {
  static const std::vector<ZooTraining> all{
      {.name = "resnet20", .size = 16, .is_small = true},
      // Of fewer images nothing could be evicted: all but parameters and gradients is next to
      // nothing.
      {.name = "resnet18", .batch = 8},
      {.name = "resnet50"},
      // Of two values in a channel batch norm makes gradients without bounds.
      {.name = "mobilenet_v2", .batch = 4, .is_small = true},
      {.name = "mobilenet_v3_small", .is_small = true},
      {.name = "mobilenet_v3_large"},
      {.name = "shufflenet_v2_x1_0", .is_small = true},
      {.name = "densenet121"},
      {.name = "inception_v3", .size = 75},
      {.name = "alexnet", .size = 63},
      {.name = "vgg16"},
      {.name = "vgg16_bn"},
      {.name = "unet", .is_small = true},
      {.name = "resnet20_by_rows",
       .size = 128,
       .batch = 4,
       .steps = 2,
       .model = "resnet20",
       .has_rows = true},
      {.name = "densenet121_by_rows",
       .size = 96,
       .batch = 4,
       .steps = 2,
       .model = "densenet121",
       .has_rows = true,
       .leaves_out_float64 = true},
  };
  auto found = std::ranges::find(all, name, &ZooTraining::name);
  expect<ValueError>(found != all.end(), "zoo", "there is no training {}", name);
  return *found;
}

std::unique_ptr<nn::Module> make_zoo_model(const ZooTraining& training, Device device) {
  std::unique_ptr<nn::Module> model = make_model(training.model_name(), training.dtype, device);
  if (device.is_meta()) return model;
  static InitialValues initial;
  initial.give(*model, training);
  return model;
}

Updating make_zoo_updating(nn::Module& model) {
  return {
      std::make_unique<optim::Sgd>(model.named_parameters(), optim::SgdOptions{.momentum = 0.9})};
}

TrainerOptions zoo_trainer_options(const ZooTraining& training) {
  return {.steps = training.steps,
          .seed = 3,
          .schedule = optim::ConstantSchedule{.rate = 1e-3},
          .input = {.dtype = training.dtype}};
}

TrainingSetup setup_of(const ZooTraining& training, const std::string& planner) {
  return {{.make_model = [=] { return make_zoo_model(training, Device::meta()); },
           .make_updating = make_zoo_updating,
           .trainer = zoo_trainer_options(training),
           .size = training.size,
           .batch = training.batch,
           .updates = training.steps},
          planner};
}

bool skips(const ZooTraining& training) {
  const bool does = is_instrumented() && !training.is_small;
  if (does) fmt::print("{} is left out\n", training.name);
  return does;
}

}  // namespace brim::testing
