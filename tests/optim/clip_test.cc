// Clipping beside the golden values of golden_test.cc: the norm, its order, what is left alone.
#include "brim/optim/clip.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/base/parallel.h"
#include "brim/optim/sgd.h"

using namespace brim;
using optim::Sgd;

namespace {

Tensor leaf(const std::vector<float>& values) {
  return from_vector<float>(values, {static_cast<int64_t>(values.size())}).set_requires_grad();
}

// What one update of plain SGD at rate 1 takes off two parameters with gradients (3) and (0, -4):
// together of norm 5.
std::vector<float> clipped(const optim::ClipOptions& clip, double loss_scale = 1) {
  Tensor a = leaf({0}), b = leaf({0, 0});
  auto scale = static_cast<float>(loss_scale);
  a.set_grad(from_vector<float>({3 * scale}, {1}));
  b.set_grad(from_vector<float>({0, -4 * scale}, {2}));
  Sgd sgd({{"a", a}, {"b", b}});
  sgd.step({.rate = 1, .loss_scale = loss_scale, .clip = clip});
  CHECK(a.grad().to_vector<float>() == std::vector<float>{3 * scale});  // left as they are
  CHECK(b.grad().to_vector<float>() == std::vector<float>{0, -4 * scale});
  return {-a.item<float>(), -b.to_vector<float>()[0], -b.to_vector<float>()[1]};
}

void check_near(const std::vector<float>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  // The factor and two products are rounded.
  for (size_t i = 0; i < got.size(); ++i)
    CHECK(std::abs(got[i] - expected[i]) <= 3 * 0x1p-24 * std::abs(expected[i]));
}

}  // namespace

TEST_CASE("clip: the norm is that of all parameters, and limits them by one factor") {
  double factor = 2.5 / (5 + 1e-6);
  check_near(clipped({.norm = 2.5}), {3 * factor, 0, -4 * factor});
}

TEST_CASE("clip: gradients within the limits keep their bits") {
  std::vector<float> whole{3, 0, -4};
  CHECK(clipped({}) == whole);
  CHECK(clipped({.norm = 5.1, .value = 4}) == whole);
}

TEST_CASE("clip: values first, then the norm of what is left, both after unscaling") {
  CHECK(clipped({.value = 3}) == std::vector<float>{3, 0, -3});
  CHECK(clipped({.value = 0.5}, 1024) == std::vector<float>{0.5, 0, -0.5});
  double factor = 1 / (std::sqrt(18.0) + 1e-6);
  for (double loss_scale : {1.0, 1024.0})
    check_near(clipped({.norm = 1, .value = 3}, loss_scale), {3 * factor, 0, -3 * factor});
}

TEST_CASE("clip: the norm is told, unscaled, also where nothing is clipped") {
  Tensor a = leaf({0, 0});
  a.set_grad(from_vector<float>({6, -8}, {2}));
  Sgd sgd({{"a", a}});
  CHECK_FALSE(sgd.gradient_norm().has_value());
  sgd.prepare({.rate = 1, .loss_scale = 2});
  CHECK(sgd.gradient_norm() == 5);
  sgd.prepare({.rate = 1, .check_finite = false});
  CHECK_FALSE(sgd.gradient_norm().has_value());
  sgd.prepare({.rate = 1, .check_finite = false, .clip = {.norm = 1}});
  CHECK(sgd.gradient_norm() == 10);
  CHECK_THROWS_AS(sgd.prepare({.rate = -1}), ValueError);
  CHECK_FALSE(sgd.gradient_norm().has_value());
}

TEST_CASE("clip: a parameter without gradient does not count, nor does its last one") {
  Tensor a = leaf({0}), b = leaf({0});
  Sgd sgd({{"a", a}, {"b", b}});
  a.set_grad(from_vector<float>({3}, {1}));
  b.set_grad(from_vector<float>({4}, {1}));
  sgd.prepare({.rate = 1});
  CHECK(sgd.gradient_norm() == 5);
  b.set_grad(Tensor());
  sgd.prepare({.rate = 1});
  CHECK(sgd.gradient_norm() == 3);
}

TEST_CASE("clip: squares that float32 cannot hold are summed all the same") {
  Tensor a = leaf({0, 0});
  a.set_grad(from_vector<float>({3e30f, 4e30f}, {2}));
  Sgd sgd({{"a", a}});
  sgd.prepare({.rate = 1, .clip = {.norm = 1}});
  CHECK(*sgd.gradient_norm() == doctest::Approx(5e30).epsilon(0x1p-23));
  sgd.commit();
  CHECK(a.to_vector<float>()[1] == doctest::Approx(-0.8).epsilon(4 * 0x1p-24));
}

TEST_CASE("clip: an infinity is refused before it is clipped to a number") {
  Tensor a = leaf({0, 0});
  a.set_grad(from_vector<float>({1, std::numeric_limits<float>::infinity()}, {2}));
  Sgd sgd({{"a", a}});
  CHECK_THROWS_WITH_AS(sgd.prepare({.rate = 1, .clip = {.norm = 1, .value = 1}}),
                       doctest::Contains("the gradient of 'a' is not finite"), ValueError);
  // Who wants no check gets what PyTorch gives: a NaN stays one, and its norm spreads.
  a.set_grad(from_vector<float>({1, NAN}, {2}));
  sgd.step({.rate = 1, .check_finite = false, .clip = {.value = 0.5}});
  CHECK(a.to_vector<float>()[0] == -0.5f);
  CHECK(std::isnan(a.to_vector<float>()[1]));
  sgd.step({.rate = 1, .check_finite = false, .clip = {.norm = 1}});
  CHECK(std::isnan(a.to_vector<float>()[0]));
  // Finite numbers of float64 whose squares are not.
  Tensor b = zeros({1}, {.dtype = Dtype::float64}).set_requires_grad();
  b.set_grad(full({1}, 1e200, {.dtype = Dtype::float64}));
  CHECK_NOTHROW(Sgd({{"b", b}}).prepare({.rate = 1}));
}

TEST_CASE("clip: norm and update have the same bits with any number of threads") {
  auto with_threads = [](int threads) {
    int before = num_threads();
    set_num_threads(threads);
    Tensor p = zeros({70000, 5}).set_requires_grad(), q = zeros({33}).set_requires_grad();
    p.set_grad(uniform(p.shape(), -2, 2, RandomKey{1}));
    q.set_grad(uniform(q.shape(), -2, 2, RandomKey{2}));
    Sgd sgd({{"p", p}, {"q", q}});
    sgd.step({.rate = 1, .clip = {.norm = 1, .value = 1.5}});
    set_num_threads(before);
    return std::pair(sgd.gradient_norm(), p.to_vector<float>());
  };
  auto one = with_threads(1);
  for (int threads : {2, 3, 7}) CHECK(with_threads(threads) == one);
}

TEST_CASE("clip: limits out of range are refused") {
  Tensor a = leaf({0});
  a.set_grad(from_vector<float>({1}, {1}));
  Sgd sgd({{"a", a}});
  CHECK_THROWS_WITH_AS(sgd.prepare({.rate = 1, .clip = {.norm = 0}}),
                       "sgd: expected a positive norm to clip to, got 0", ValueError);
  CHECK_THROWS_WITH_AS(sgd.prepare({.rate = 1, .clip = {.value = -1}}),
                       "sgd: expected a positive value to clip to, got -1", ValueError);
  CHECK_THROWS_AS(sgd.prepare({.rate = 1, .clip = {.norm = std::nan("")}}), ValueError);
}
