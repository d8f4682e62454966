// A model of one's own, trained on drawn shapes.
#include <cstdio>

#include "brim/brim.h"

using namespace brim;

// [model]
struct Net final : nn::Module {
  nn::Conv2d conv1{3, 32, {.kernel = 3, .stride = 2, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{32};
  nn::Conv2d conv2{32, 64, {.kernel = 3, .stride = 2, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn2{64};
  nn::Conv2d conv3{64, 128, {.kernel = 3, .stride = 2, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn3{128};
  nn::Linear fc{128, 10};

  Net() {
    register_modules({{"conv1", conv1}, {"bn1", bn1}, {"conv2", conv2}, {"bn2", bn2}});
    register_modules({{"conv3", conv3}, {"bn3", bn3}, {"fc", fc}});
  }
  Tensor forward(Tensor x) override {
    x = bn1(conv1(std::move(x)), {.activation = Activation::relu});
    x = bn2(conv2(std::move(x)), {.activation = Activation::relu});
    x = bn3(conv3(std::move(x)), {.activation = Activation::relu});
    return fc(global_avg_pool(std::move(x)));
  }
};
// [/model]

int main() {
  // [train]
  Net net;
  nn::initialize(net, /*seed=*/1);
  optim::Sgd sgd(net.named_parameters(), {.momentum = 0.9, .weight_decay = 5e-4});
  data::Loader training(std::make_shared<data::Shapes>(), {.batch = 50, .size = 32});
  auto others = std::make_shared<data::Shapes>(
      data::ShapesOptions{.split = data::ShapesOptions::Split::val, .count = 500});
  data::Loader validation(others, {.batch = 100, .size = 32, .shuffle = false});
  LoaderSource source(training);
  Trainer trainer(net, sgd, {source, &validation},
                  {.steps = 480, .schedule = optim::CosineSchedule{.rate = 0.1, .steps = 480}});
  double accuracy = 0;
  trainer.on_epoch = [&](const EpochReport& report) { accuracy = report.validation->accuracy; };
  trainer.run();
  // [/train]
  std::printf("accuracy %.3f\n", accuracy);
  check(accuracy > 0.4, "half of them after three epochs; chance would be a tenth");
}
