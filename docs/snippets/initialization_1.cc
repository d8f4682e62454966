// How large signals and gradients are after many layers, by the size of the initial weights.
#include <cmath>
#include <cstdio>
#include <string>

#include "brim/autograd/backward.h"
#include "brim/nn/batch_norm2d.h"
#include "brim/nn/linear.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/ops.h"

using namespace brim;

namespace {

constexpr int64_t kWidth = 256, kSamples = 64;

double rms(const Tensor& tensor) {
  double sum = 0;
  for (double v : tensor.to_vector<double>()) sum += v * v;
  return std::sqrt(sum / static_cast<double>(tensor.numel()));
}

// [signal]
struct Sizes {
  double signal, gradient;  // root mean squares: of the last output, at the first input
};
Sizes through(int layers, double gain, bool normalize = false) {
  Tensor x = normal({kSamples, kWidth}, 1, RandomKey{1}).set_requires_grad();
  Tensor y = x, one = ones({kWidth}), zero = zeros({kWidth});
  auto deviation = static_cast<float>(gain / std::sqrt(kWidth));
  for (int i = 0; i < layers; ++i) {
    Tensor weight = normal({kWidth, kWidth}, deviation, derive(RandomKey{2}, std::to_string(i)));
    y = linear(std::move(y), weight, {});
    if (normalize) y = batch_norm(std::move(y), one, zero, {}, {});
    y = relu(std::move(y));
  }
  Sizes sizes{.signal = rms(y), .gradient = 0};
  backward(y, {.grad = normal(y.shape(), 1, RandomKey{3})});
  sizes.gradient = rms(x.grad());
  return sizes;
}
// [/signal]

void print(const char* name, Sizes sizes) {
  std::printf("%-12s signal %.1e  gradient %.1e\n", name, sizes.signal, sizes.gradient);
}

void depth() {
  // [depth]
  const int layers = 30;
  Sizes small = through(layers, 1), right = through(layers, std::sqrt(2.0));
  Sizes large = through(layers, 2);
  check(small.signal < 1e-4 && small.gradient < 1e-4, "2^(-30/2) is 3e-5");
  check(right.signal > 0.3 && right.signal < 3, "of size 1");
  check(right.gradient > 0.3 && right.gradient < 3, "of size 1");
  check(large.signal > 1e4 && large.gradient > 1e4, "2^(30/2) is 3e4");
  // [/depth]
  print("gain 1", small);
  print("gain sqrt 2", right);
  print("gain 2", large);

  // [normalized]
  Sizes tiny = through(layers, 0.1, true), huge = through(layers, 100, true);
  check(std::abs(tiny.signal - huge.signal) < 0.01, "batch norm forgets the gain");
  // [/normalized]
  print("norm, 0.1", tiny);
  print("norm, 100", huge);
}

void symmetry() {
  // [symmetry]
  nn::Linear hidden(3, 4);
  fill(hidden.weight, 0.5);
  fill(hidden.bias, 0);
  hidden.weight.set_requires_grad();
  Tensor x = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  backward(sum(relu(hidden(x))));
  std::vector<float> gradient = hidden.weight.grad().to_vector<float>();
  check(std::equal(gradient.begin(), gradient.begin() + 3, gradient.begin() + 3),
        "what starts equal gets equal gradients, and stays equal");
  // [/symmetry]
}

void by_name() {
  // [by-name]
  auto wide = nn::make_model("resnet18", {.classes = 1000, .seed = 7});
  auto narrow = nn::make_model("resnet18", {.classes = 10, .seed = 7});
  const char* name = "layer4.1.conv2.weight";
  check(wide->tensor(name).to_vector<float>() == narrow->tensor(name).to_vector<float>(),
        "another head; all else starts from the same numbers");
  // [/by-name]
}

}  // namespace

int main() {
  depth();
  symmetry();
  by_name();
}
