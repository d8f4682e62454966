#include "brim/nn/init.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "brim/nn/creation.h"
#include "brim/nn/layers.h"

using namespace brim;

namespace {

struct Moments {
  double mean, deviation, largest;
};

Moments moments_of(const Tensor& tensor) {
  std::vector<double> values = tensor.to_vector<double>();
  auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0, largest = 0;
  for (double v : values) {
    sum += v;
    squares += v * v;
    largest = std::max(largest, std::abs(v));
  }
  return {sum / n, std::sqrt(squares / n - sum / n * sum / n), largest};
}

// n draws: the mean errs by deviation / sqrt(n), the deviation by about deviation / sqrt(2 n) for
// a normal; five of those is one chance in two million, and the numbers are fixed by the key.
void check_distribution(const nn::Init& rule, const Shape& shape, double deviation, double bound) {
  Tensor tensor = empty(shape);
  rule(tensor, RandomKey{11});
  Moments got = moments_of(tensor);
  double root = std::sqrt(static_cast<double>(tensor.numel()));
  CHECK(std::abs(got.mean) < 5 * deviation / root);
  CHECK(std::abs(got.deviation - deviation) < 5 * deviation / root);
  CHECK(got.largest <= bound);
  if (bound < 1e9) CHECK(got.largest > 0.99 * bound);
}

}  // namespace

TEST_CASE("init: fans are PyTorch's") {
  CHECK(nn::fan_of({64, 3, 5, 16}, nn::Fan::in) == 3 * 5 * 16);
  CHECK(nn::fan_of({64, 3, 5, 16}, nn::Fan::out) == 3 * 5 * 64);
  CHECK(nn::fan_of({32, 3, 3, 1}, nn::Fan::in) == 9);  // depthwise
  CHECK(nn::fan_of({32, 3, 3, 1}, nn::Fan::out) == 9 * 32);
  CHECK(nn::fan_of({10, 20}, nn::Fan::in) == 20);
  CHECK(nn::fan_of({10, 20}, nn::Fan::out) == 10);
  CHECK_THROWS_AS(nn::fan_of({10}, nn::Fan::in), ShapeError);
}

TEST_CASE("init: every rule has the deviation that its paper says") {
  Shape conv{64, 3, 3, 32}, matrix{200, 100};
  double in = 9 * 32, out = 9 * 64, none = 1e9, three = std::sqrt(3.0);
  check_distribution(nn::init::normal(0.01), matrix, 0.01, none);
  check_distribution(nn::init::uniform(0.3), matrix, 0.3 / three, 0.3);
  check_distribution(nn::init::kaiming_normal(), conv, std::sqrt(2 / in), none);
  check_distribution(nn::init::kaiming_normal({.fan = nn::Fan::out}), conv, std::sqrt(2 / out),
                     none);
  check_distribution(nn::init::kaiming_uniform({.gain = 1}), conv, std::sqrt(1 / in),
                     three * std::sqrt(1 / in));
  check_distribution(nn::init::xavier_normal(), matrix, std::sqrt(2.0 / 300), none);
  check_distribution(nn::init::xavier_uniform(2), matrix, 2 * std::sqrt(2.0 / 300),
                     2 * three * std::sqrt(2.0 / 300));
  Tensor tensor = empty({3});
  nn::init::constant(1.5)(tensor, RandomKey{1});
  CHECK(tensor.to_vector<float>() == std::vector<float>{1.5f, 1.5f, 1.5f});
}

TEST_CASE("initialize: values depend on seed, name and element alone") {
  struct One final : nn::Module {
    One() { register_modules({{"a", a}, {"b", b}}); }
    Tensor forward(Tensor x) override { return x; }
    nn::Linear a{4, 5}, b{4, 5};
  };
  struct Other final : nn::Module {
    Other() { register_modules({{"z", z}, {"b", b}, {"a", a}}); }
    Tensor forward(Tensor x) override { return x; }
    nn::Linear z{9, 9}, b{4, 5}, a{4, 5};
  };
  One one;
  Other other;
  nn::initialize(one, 5);
  nn::initialize(other, 5);
  for (const char* name : {"a.weight", "a.bias", "b.weight", "b.bias"})
    CHECK(one.tensor(name).to_vector<float>() == other.tensor(name).to_vector<float>());
  CHECK(one.a.weight.to_vector<float>() != one.b.weight.to_vector<float>());
  CHECK(one.a.bias.to_vector<float>() != one.b.bias.to_vector<float>());
  nn::initialize(other, 6);
  CHECK(one.a.weight.to_vector<float>() != other.a.weight.to_vector<float>());
  // float64 starts from the same draws.
  auto wide = nn::make<One>({.dtype = Dtype::float64});
  nn::initialize(*wide, 5);
  CHECK(wide->a.weight.to_vector<float>() == one.a.weight.to_vector<float>());
}

TEST_CASE("initialize: layers start as in PyTorch") {
  nn::Linear fc(64, 300);
  nn::initialize(fc, 1);
  CHECK(moments_of(fc.weight).largest <= 1.0 / 8);
  CHECK(moments_of(fc.weight).deviation == doctest::Approx(0.125 / std::sqrt(3.0)).epsilon(0.02));
  CHECK(moments_of(fc.bias).largest <= 1.0 / 8);
  nn::BatchNorm2d bn(3, {.weight = 0});
  nn::initialize(bn, 1);
  CHECK(bn.weight.to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(bn.running_var.to_vector<float>() == std::vector<float>{1, 1, 1});
  nn::Conv2d conv(8, 32, {.kernel = 3});
  nn::initialize(conv, 1);
  CHECK(moments_of(conv.weight).deviation ==
        doctest::Approx(std::sqrt(2.0 / (9 * 32))).epsilon(0.05));
  CHECK(moments_of(conv.bias).largest == 0);
}
