#include "brim/nn/models/registry.h"

#include <algorithm>
#include <functional>

#include "brim/base/nearest.h"
#include "brim/nn/creation.h"
#include "brim/nn/models/alexnet.h"
#include "brim/nn/models/densenet.h"
#include "brim/nn/models/inception_v3.h"
#include "brim/nn/models/mobilenet_v1.h"
#include "brim/nn/models/mobilenet_v2.h"
#include "brim/nn/models/mobilenet_v3.h"
#include "brim/nn/models/resnet.h"
#include "brim/nn/models/resnet_cifar.h"
#include "brim/nn/models/shufflenet_v2.h"
#include "brim/nn/models/training_recipe.h"
#include "brim/nn/models/vgg.h"

namespace brim::nn {
namespace {

struct Entry {
  std::string name;
  std::function<std::unique_ptr<Module>(const ModelOptions&)> make;
  TrainingRecipe recipe = {};
};

Entry trained(Entry entry, TrainingRecipe recipe) {
  entry.recipe = std::move(recipe);
  return entry;
}

/// What is usual for ImageNet, 0.1 for 256 images, in proportion and rounded: a classifier of 512
/// features swings at more (docs/recipes.md).
TrainingRecipe sgd(double rate) {
  return {.optimizer = "sgd", .rate = rate, .weight_decay = 5e-4, .momentum = 0.9};
}

/// AdamW, whose steps are as large in a classifier of 512 and more features as in the first
/// convolution. With SGD a rate that the former bears is too small for the latter
/// (docs/recipes.md).
TrainingRecipe adamw(double rate) {
  return {.optimizer = "adamw", .rate = rate, .weight_decay = 0.01};
}

/// What He et al. trained it with on CIFAR-10, but for the schedule, and the rate in proportion.
TrainingRecipe for_cifar() {
  return {.optimizer = "sgd",
          .rate = 0.05,
          .weight_decay = 5e-4,
          .momentum = 0.9,
          .size = 32,
          .drawn_size = 32};
}

/// Its last maps are one pixel up to 106.
TrainingRecipe for_inception() {
  TrainingRecipe recipe = adamw(6e-3);
  recipe.size = 299;
  recipe.drawn_size = 112;
  return recipe;
}

Entry resnet(std::string name, const ResNetLayout& layout) {
  return {std::move(name), [=](const ModelOptions& o) {
            return std::make_unique<ResNet>(
                layout,
                ResNetOptions{.classes = o.classes, .zero_init_residual = o.zero_init_residual});
          }};
}

Entry cifar_resnet(std::string name, int blocks_per_stage) {
  return {std::move(name), [=](const ModelOptions& o) {
            return std::make_unique<CifarResNet>(blocks_per_stage,
                                                 CifarResNetOptions{.classes = o.classes});
          }};
}

std::unique_ptr<Module> mobilenet_v1(const ModelOptions& o) {
  return std::make_unique<MobileNetV1>(MobileNetV1Options{.classes = o.classes});
}

std::unique_ptr<Module> mobilenet_v2(const ModelOptions& o) {
  MobileNetV2Options options{.classes = o.classes};
  if (o.dropout) options.dropout = *o.dropout;
  return std::make_unique<MobileNetV2>(options);
}

Entry mobilenet_v3(std::string name, const MobileNetV3Layout& layout) {
  return {std::move(name), [&layout](const ModelOptions& o) {
            MobileNetV3Options options{.classes = o.classes};
            if (o.dropout) options.dropout = *o.dropout;
            return std::make_unique<MobileNetV3>(layout, options);
          }};
}

std::unique_ptr<Module> alexnet(const ModelOptions& o) {
  AlexNetOptions options{.classes = o.classes};
  if (o.dropout) options.dropout = *o.dropout;
  return std::make_unique<AlexNet>(options);
}

Entry vgg(std::string name, const VggLayout& layout) {
  return {std::move(name), [=](const ModelOptions& o) {
            VggOptions options{.classes = o.classes};
            if (o.dropout) options.dropout = *o.dropout;
            return std::make_unique<Vgg>(layout, options);
          }};
}

std::unique_ptr<Module> inception_v3(const ModelOptions& o) {
  InceptionV3Options options{.classes = o.classes};
  if (o.dropout) options.dropout = *o.dropout;
  return std::make_unique<InceptionV3>(options);
}

Entry densenet(std::string name, const DenseNetLayout& layout) {
  return {std::move(name), [=](const ModelOptions& o) {
            DenseNetOptions options{.classes = o.classes};
            if (o.dropout) options.dropout = *o.dropout;
            return std::make_unique<DenseNet>(layout, options);
          }};
}

Entry shufflenet_v2(std::string name, const ShuffleNetV2Layout& layout) {
  return {std::move(name), [=](const ModelOptions& o) {
            return std::make_unique<ShuffleNetV2>(layout,
                                                  ShuffleNetV2Options{.classes = o.classes});
          }};
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      trained(resnet("resnet18", kResNet18), sgd(0.01)),
      trained(resnet("resnet34", kResNet34), adamw(1e-3)),
      trained(resnet("resnet50", kResNet50), adamw(1e-3)),
      trained(resnet("resnet101", kResNet101), adamw(2e-3)),
      trained(resnet("resnet152", kResNet152), adamw(1e-3)),
      trained(resnet("resnext50_32x4d", kResNeXt50_32x4d), adamw(2e-3)),
      trained(resnet("resnext101_32x8d", kResNeXt101_32x8d), adamw(2e-3)),
      trained(resnet("resnext101_64x4d", kResNeXt101_64x4d), adamw(2e-3)),
      trained(resnet("wide_resnet50_2", kWideResNet50_2), adamw(1e-3)),
      trained(resnet("wide_resnet101_2", kWideResNet101_2), adamw(1e-3)),
      trained(cifar_resnet("resnet20", 3), for_cifar()),
      trained({"mobilenet_v1", mobilenet_v1}, adamw(2e-3)),
      trained({"mobilenet_v2", mobilenet_v2}, adamw(4e-3)),
      trained(mobilenet_v3("mobilenet_v3_small", kMobileNetV3Small), adamw(4e-3)),
      trained(mobilenet_v3("mobilenet_v3_large", kMobileNetV3Large), adamw(4e-3)),
      trained(shufflenet_v2("shufflenet_v2_x1_0", kShuffleNetV2_x1_0), adamw(4e-3)),
      trained(densenet("densenet121", kDenseNet121), adamw(1e-3)),
      trained({"inception_v3", inception_v3}, for_inception()),
      trained({"alexnet", alexnet}, adamw(3e-4)),
      trained(vgg("vgg16", kVgg16), sgd(0.01)),
      trained(vgg("vgg16_bn", kVgg16Bn), adamw(5e-5)),
  };
  return all;
}

const Entry& entry_of(const std::string& name) {
  const auto found = std::ranges::find(entries(), name, &Entry::name);
  if (found == entries().end())
    raise<ValueError>("model", "no model is called '{}'{}", name,
                      did_you_mean(name, model_names()));
  return *found;
}

std::unique_ptr<Module> usual(const Entry& entry, const ModelOptions& options, Device device) {
  CreationScope scope({.dtype = options.dtype, .device = device});
  return entry.make(options);
}

// On the way it is on a meta device of its own: the account in force sees it at its size alone.
std::unique_ptr<Module> with_sizes(const Entry& entry, const ModelOptions& options) {
  std::unique_ptr<Module> model;
  {
    memory::AccountScope apart(std::make_shared<memory::Account>(
        Device::meta(), std::make_unique<memory::NullSource>(), memory::planner_named("direct")));
    model = usual(entry, options, Device::meta());
    resize(*model, options.sizes);
  }
  materialize(*model, options.device);
  return model;
}

}  // namespace

std::unique_ptr<Module> make_model(const std::string& name, const ModelOptions& options) {
  expect<ValueError>(options.classes > 0, "model", "expected at least one class, got {}",
                     options.classes);
  const Entry& entry = entry_of(name);
  std::unique_ptr<Module> model =
      options.sizes.empty() ? usual(entry, options, options.device) : with_sizes(entry, options);
  if (options.seed) initialize(*model, *options.seed);
  return model;
}

const TrainingRecipe& training_recipe(const std::string& name) { return entry_of(name).recipe; }

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Entry& entry : entries()) list.push_back(entry.name);
    return list;
  }();
  return names;
}

}  // namespace brim::nn
