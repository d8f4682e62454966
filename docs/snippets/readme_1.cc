// A model of one's own, trained on drawn shapes.
#include <cstdio>

#include "brim/brim.h"

using namespace brim;

// [model]
struct Net final : nn::Module {
  nn::Conv2d conv1{3, 16, {.kernel = 3, .stride = 2, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{16};
  nn::Conv2d conv2{16, 32, {.kernel = 3, .stride = 2, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn2{32};
  nn::Linear fc{32, 10};

  Net() {
    register_modules({{"conv1", conv1}, {"bn1", bn1}, {"conv2", conv2}, {"bn2", bn2}, {"fc", fc}});
  }
  Tensor forward(Tensor x) override {
    x = bn1(conv1(std::move(x)), {.activation = Activation::relu});
    x = bn2(conv2(std::move(x)), {.activation = Activation::relu});
    return fc(global_avg_pool(std::move(x)));
  }
};
// [/model]

int main() {
  // [train]
  Net net;
  nn::initialize(net, /*seed=*/1);
  optim::Sgd sgd(net.named_parameters(), {.momentum = 0.9, .weight_decay = 5e-4});
  using Split = data::ShapesOptions::Split;
  data::Loader training(std::make_shared<data::Shapes>(data::ShapesOptions{.count = 2000}),
                        {.batch = 50, .size = 32});
  data::Loader validation(
      std::make_shared<data::Shapes>(data::ShapesOptions{.split = Split::val, .count = 500}),
      {.batch = 100, .size = 32, .shuffle = false});
  LoaderSource source(training);
  Trainer trainer(net, sgd,
                  {.steps = 240, .schedule = optim::CosineSchedule{.rate = 0.1, .steps = 240}});
  double accuracy = 0;
  trainer.on_epoch = [&](const EpochReport& report) { accuracy = report.validation->accuracy; };
  trainer.run(source, &validation);
  // [/train]
  std::printf("accuracy %.3f\n", accuracy);
  check(accuracy > 0.3, "of ten classes, a tenth would be chance");
}
