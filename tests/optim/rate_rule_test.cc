// The rules against their formulas, and the warm-up against the images that it sees.
#include "brim/optim/rate_rule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/base/error.h"

using namespace brim;
using namespace brim::optim;

namespace {

// Three operations in double, each with half an ulp.
doctest::Approx near(double value) { return doctest::Approx(value).epsilon(1e-15); }

double rate_of(double rate, int64_t from, int64_t to, RateRule rule) {
  return scale_rate({.rate = rate, .batch = from}, to, rule).rate;
}

int64_t warmup_of(int64_t warmup, int64_t from, int64_t to) {
  return scale_rate({.batch = from, .warmup = warmup}, to, RateRule::none).warmup;
}

}  // namespace

TEST_CASE("rate rule: each follows its formula, up and down") {
  CHECK(rate_of(0.1, 256, 8192, RateRule::linear) == near(3.2));  // of Goyal et al.
  CHECK(rate_of(0.1, 64, 16, RateRule::linear) == near(0.025));
  CHECK(rate_of(1e-3, 64, 256, RateRule::square_root) == near(2e-3));
  CHECK(rate_of(1e-3, 64, 128, RateRule::square_root) == near(1e-3 * std::sqrt(2)));
  CHECK(rate_of(1e-3, 64, 16, RateRule::square_root) == near(5e-4));
  for (int64_t batch : {1, 63, 100000}) CHECK(rate_of(0.1, 64, batch, RateRule::none) == 0.1);
}

TEST_CASE("rate rule: at the recipe's own batch nothing changes, to the bit") {
  for (RateRule rule : {RateRule::none, RateRule::linear, RateRule::square_root})
    for (int64_t batch : {1, 3, 96, 1000003}) {
      ScaledRate same = scale_rate({.rate = 0.1, .batch = batch, .warmup = 7}, batch, rule);
      CHECK(same.rate == 0.1);
      CHECK(same.warmup == 7);
    }
}

TEST_CASE("rate rule: the warm-up sees as many images, and no update more than that takes") {
  for (RateRule rule : {RateRule::none, RateRule::linear, RateRule::square_root})
    CHECK(scale_rate({.batch = 64, .warmup = 500}, 256, rule).warmup == 125);
  CHECK(warmup_of(500, 64, 32) == 1000);
  CHECK(warmup_of(1, 64, 4096) == 1);  // some stays some
  CHECK(warmup_of(0, 64, 1) == 0);     // and none is none
  for (int64_t warmup : {1, 5, 17})
    for (int64_t from : {1, 48, 64})
      for (int64_t to : {1, 7, 64, 100, 5000}) {
        CAPTURE(warmup);
        CAPTURE(from);
        CAPTURE(to);
        int64_t updates = warmup_of(warmup, from, to);
        CHECK(updates * to >= warmup * from);
        CHECK((updates - 1) * to < warmup * from);
      }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(warmup_of(kMost, 1, 1) == kMost);
  CHECK(warmup_of(kMost, 1, kMost) == 1);
}

TEST_CASE("rate rule: by name") {
  for (RateRule rule : {RateRule::none, RateRule::linear, RateRule::square_root})
    CHECK(rate_rule_named(to_string(rule)) == rule);
  CHECK(to_string(RateRule::square_root) == "sqrt");
  CHECK_THROWS_WITH_AS(
      rate_rule_named("liner"),
      "rate rule: expected none, linear or sqrt, got 'liner'; did you mean 'linear'?", ValueError);
  CHECK_THROWS_WITH_AS(rate_rule_named(""), "rate rule: expected none, linear or sqrt, got ''",
                       ValueError);
}

TEST_CASE("rate rule: a line for people") {
  RateRecipe recipe{.rate = 0.1, .batch = 64};
  CHECK(describe(recipe, 128, RateRule::linear) ==
        "rate 0.2: 0.1 at batch 64, in proportion (linear)");
  CHECK(describe(recipe, 192, RateRule::linear) ==  // 0.30000000000000004 to no person
        "rate 0.3: 0.1 at batch 64, in proportion (linear)");
  CHECK(describe(recipe, 128, RateRule::square_root) ==
        "rate 0.141421: 0.1 at batch 64, by the square root (sqrt)");
  CHECK(describe(recipe, 128, RateRule::none) == "rate 0.1: 0.1 at batch 64, not scaled (none)");
}

TEST_CASE("rate rule: values out of range are named") {
  auto scale = [](RateRecipe recipe, int64_t batch) {
    return scale_rate(recipe, batch, RateRule::linear);
  };
  CHECK_THROWS_WITH_AS(scale({.rate = 0, .batch = 8}, 8),
                       "rate rule: expected a rate above 0, got 0", ValueError);
  CHECK_THROWS_AS(scale({.rate = -1, .batch = 8}, 8), ValueError);
  CHECK_THROWS_AS(scale({.rate = std::nan(""), .batch = 8}, 8), ValueError);
  CHECK_THROWS_AS(scale({.rate = INFINITY, .batch = 8}, 8), ValueError);
  CHECK_THROWS_WITH_AS(scale({}, 8), "rate rule: expected a recipe's batch above 0, got 0",
                       ValueError);
  CHECK_THROWS_WITH_AS(scale({.batch = 8}, -8), "rate rule: expected a batch above 0, got -8",
                       ValueError);
  CHECK_THROWS_WITH_AS(scale({.batch = 8, .warmup = -1}, 8),
                       "rate rule: warmup is out of range: -1", ValueError);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK_THROWS_AS(scale({.batch = 2, .warmup = kMost}, 8), ValueError);
  CHECK_THROWS_AS(describe({}, 8, RateRule::none), ValueError);
}
