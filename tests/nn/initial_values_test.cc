// Proves that models draw their initial values as torchvision's do, by deviations. Where
// torchvision leaves PyTorch's own rule, that is uniform in +-1/sqrt(fan in), which has a deviation
// of 1/sqrt(3 fan in).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/nn/models/inception_v3.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/models/vgg.h"

using namespace brim;

namespace {

double worst(const Tensor& tensor) {
  double most = 0;
  for (double v : tensor.to_vector<double>()) most = std::max(most, std::abs(v));
  return most;
}

void check_deviation(const Tensor& tensor, double deviation) {
  double squares = 0;
  for (double value : tensor.to_vector<double>()) squares += value * value;
  auto n = static_cast<double>(tensor.numel());
  // A sample's deviation is off by 1 / sqrt(2 n) of itself on average; five times that.
  CHECK(std::abs(std::sqrt(squares / n) / deviation - 1) < 5 / std::sqrt(2 * n));
}

}  // namespace

TEST_CASE("initial values: the classifiers of MobileNets have a deviation of 0.01") {
  for (auto [model, weight] : {std::pair{"mobilenet_v1", "classifier.weight"},
                               std::pair{"mobilenet_v2", "classifier.1.weight"},
                               std::pair{"mobilenet_v3_small", "classifier.0.weight"},
                               std::pair{"mobilenet_v3_large", "classifier.3.weight"}}) {
    CAPTURE(model);
    check_deviation(nn::make_model(model)->tensor(weight), 0.01);
  }
}

TEST_CASE("initial values: AlexNet") {
  auto alexnet = nn::make_model("alexnet");
  check_deviation(alexnet->tensor("features.3.weight"), 1 / std::sqrt(3 * 1600.0));
  check_deviation(alexnet->tensor("features.3.bias"), 1 / std::sqrt(3 * 1600.0));
  CHECK(worst(alexnet->tensor("features.3.bias")) <= 1 / std::sqrt(1600.0));
  check_deviation(alexnet->tensor("classifier.6.weight"), 1 / std::sqrt(3 * 4096.0));
}

TEST_CASE("initial values: ShuffleNet V2") {
  auto shufflenet = nn::make_model("shufflenet_v2_x1_0");
  check_deviation(shufflenet->tensor("conv1.0.weight"), 1 / std::sqrt(3 * 27.0));
  check_deviation(shufflenet->tensor("stage3.0.branch1.0.weight"), 1 / std::sqrt(3 * 9.0));
  check_deviation(shufflenet->tensor("stage3.0.branch2.0.weight"), 1 / std::sqrt(3 * 116.0));
}

TEST_CASE("initial values: DenseNet") {
  auto densenet = nn::make_model("densenet121");
  check_deviation(densenet->tensor("features.denseblock1.denselayer1.conv2.weight"),
                  std::sqrt(2 / (9 * 128.0)));
  check_deviation(densenet->tensor("classifier.weight"), 1 / std::sqrt(3 * 1024.0));
  CHECK(worst(densenet->tensor("classifier.bias")) == 0);
}

TEST_CASE("initial values: Inception V3") {
  nn::InceptionV3 inception({.auxiliary = true});
  nn::initialize(inception, 1);
  check_deviation(inception.tensor("Mixed_6b.branch7x7_2.conv.weight"), 0.1);
  check_deviation(inception.tensor("fc.weight"), 0.1);
  check_deviation(inception.tensor("AuxLogits.conv1.conv.weight"), 0.1);
  check_deviation(inception.tensor("AuxLogits.fc.weight"), 0.001);
}

TEST_CASE("initial values: VGG") {
  nn::Vgg vgg(nn::kVgg16, {.hidden = 64});
  nn::initialize(vgg, 1);
  check_deviation(vgg.tensor("features.2.weight"), std::sqrt(2 / (9 * 64.0)));
  CHECK(worst(vgg.tensor("features.2.bias")) == 0);
  check_deviation(vgg.tensor("classifier.0.weight"), 0.01);
  CHECK(worst(vgg.tensor("classifier.0.bias")) == 0);
}
