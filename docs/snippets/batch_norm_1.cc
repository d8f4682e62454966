// Batch norm by hand, forward and backward, against `batch_norm`.
#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/nn/fold.h"
#include "brim/nn/layers.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/sub.h"
#include "brim/ops/sum.h"

using namespace brim;

namespace {

using Values = std::vector<double>;

constexpr TensorOptions kFloat64{.dtype = Dtype::float64};
constexpr int kPixels = 24;  // of one channel; all images together
constexpr double kEpsilon = 1e-5;

bool near(double a, double b) { return std::abs(a - b) < 1e-12; }

// [forward]
/// One channel: the n values x become y = weight * xhat + bias.
struct Normalized {
  double mean = 0, variance = 0, scale = 0;  // scale: 1 / sqrt(variance + epsilon)
  Values xhat;
};
Normalized normalize_channel(const Values& x) {
  Normalized result;
  auto n = static_cast<double>(x.size());
  for (double v : x) result.mean += v / n;
  for (double v : x) result.variance += (v - result.mean) * (v - result.mean) / n;
  result.scale = 1 / std::sqrt(result.variance + kEpsilon);
  for (double v : x) result.xhat.push_back((v - result.mean) * result.scale);
  return result;
}
// [/forward]

// [backward]
struct Gradients {
  Values x;
  double weight = 0, bias = 0;
};
Gradients gradients_of_channel(const Normalized& forward, double weight, const Values& dy) {
  Gradients result;
  auto n = static_cast<double>(dy.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    result.bias += dy[i];
    result.weight += dy[i] * forward.xhat[i];
  }
  for (size_t i = 0; i < dy.size(); ++i)
    result.x.push_back(weight * forward.scale *
                       (dy[i] - result.bias / n - forward.xhat[i] * result.weight / n));
  return result;
}
// [/backward]

void by_hand() {
  Tensor x = uniform({2, 3, 4, 1}, -1, 3, RandomKey{1}, kFloat64).set_requires_grad();
  Tensor weight = full({1}, 1.5, kFloat64).set_requires_grad();
  Tensor bias = full({1}, -0.25, kFloat64).set_requires_grad();
  Tensor dy = uniform({2, 3, 4, 1}, -1, 1, RandomKey{2}, kFloat64);
  Tensor y = batch_norm(x, weight, bias, {}, {}, {.epsilon = kEpsilon});

  Normalized forward = normalize_channel(x.to_vector<double>());
  Values expected = y.to_vector<double>();
  for (size_t i = 0; i < kPixels; ++i)
    check(near(1.5 * forward.xhat[i] - 0.25, expected[i]), "forward");

  backward(y, {.grad = dy});
  Gradients gradients = gradients_of_channel(forward, 1.5, dy.to_vector<double>());
  check(near(gradients.weight, weight.grad().item<double>()), "gradient of the weight");
  check(near(gradients.bias, bias.grad().item<double>()), "gradient of the bias");
  Values dx = x.grad().to_vector<double>();
  for (size_t i = 0; i < kPixels; ++i) check(near(gradients.x[i], dx[i]), "gradient of x");

  // [two-directions]
  double along_one = 0, along_xhat = 0;
  for (size_t i = 0; i < kPixels; ++i) {
    along_one += dx[i];
    along_xhat += dx[i] * forward.xhat[i];
  }
  check(near(along_one, 0), "adding a constant to x changes nothing");
  check(std::abs(along_xhat) < 1e-4, "nor, but for epsilon, does stretching it");
  // [/two-directions]
}

void cancellation() {
  // [cancellation]
  Values x{10000.1, 10000.2, 10000.3, 10000.4};  // the variance is 0.0125
  float sum = 0, squares = 0;
  for (double v : x) {
    sum += static_cast<float>(v);
    squares += static_cast<float>(v) * static_cast<float>(v);
  }
  float naive = squares / 4 - (sum / 4) * (sum / 4);
  check(std::abs(naive - 0.0125) > 1, "the difference of two numbers near 10^8 has no digits left");

  std::vector<float> rounded(x.begin(), x.end());
  Tensor one = from_vector(rounded, {4, 1}), y = batch_norm(one, ones({1}), zeros({1}), {}, {});
  float top = y.to_vector<float>().back();  // (10000.4 - 10000.25) / sqrt(0.0125)
  check(std::abs(top - 1.3416) < 0.01, "the pixels were rounded to steps of 0.001; that is all");
  // [/cancellation]
}

void running() {
  // [running]
  Tensor running_mean = zeros({1}), running_var = ones({1});
  Tensor x = from_vector<float>({1, 2, 3, 4}, {4, 1}), weight = ones({1}), bias = zeros({1});
  batch_norm(x, weight, bias, running_mean, running_var, {.momentum = 0.5});
  check(running_mean.item<float>() == 1.25f, "half way from 0 to 2.5");
  check(std::abs(running_var.item<float>() - (0.5 + 0.5 * 5.0 / 3)) < 1e-6,
        "half way from 1 to 5/3: the sum of squares, 5, over n - 1");

  Tensor alone = from_vector<float>({3}, {1, 1});
  Tensor y = batch_norm(alone, weight, bias, running_mean, running_var, {.training = false});
  check(y.item<float>() > 1, "in evaluation a single value has a meaning, and nothing moves");
  check(running_mean.item<float>() == 1.25f, "as before");
  // [/running]
}

// [stem]
struct Stem final : nn::Module {
  nn::Conv2d conv{3, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn{8};
  Stem() { register_modules({{"conv", conv}, {"bn", bn}}); }
  Tensor forward(Tensor x) override {
    return bn(conv(std::move(x)), {.activation = Activation::relu});
  }
};
// [/stem]

double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (float v : sub(a, b).to_vector<float>()) most = std::max(most, std::abs(double{v}));
  return most;
}

void folding() {
  autograd::NoGradScope no_grad;
  Stem stem;
  nn::initialize(stem, 1);
  fill_uniform(stem.bn.running_mean, -1, 1, RandomKey{3});
  fill_uniform(stem.bn.running_var, 0.5, 2, RandomKey{4});
  Tensor x = normal({1, 16, 16, 3}, 1, RandomKey{5});
  // [fold]
  stem.eval();
  Tensor before = stem(x);
  nn::FoldReport report = nn::fold_batch_norms(stem, x.shape());
  check(report.folded == std::vector<std::string>{"bn"}, "its input is the convolution's alone");
  check(stem.named_parameters().size() == 2, "the convolution's weight and bias are left");
  check(largest_difference(stem(x), before) < 1e-5, "the same up to rounding");
  // [/fold]
}

}  // namespace

int main() {
  by_hand();
  cancellation();
  running();
  folding();
}
