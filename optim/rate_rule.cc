#include "brim/optim/rate_rule.h"

#include <cmath>
#include <limits>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/nearest.h"

namespace brim::optim {
namespace {

constexpr const char* kTag = "rate rule";

struct Known {
  RateRule rule;
  const char *name, *in_words;
};
constexpr Known kRules[] = {{RateRule::none, "none", "not scaled"},
                            {RateRule::linear, "linear", "in proportion"},
                            {RateRule::square_root, "sqrt", "by the square root"}};

const Known& known(RateRule rule) { return kRules[static_cast<size_t>(rule)]; }

double factor(double ratio, RateRule rule) {
  switch (rule) {
    case RateRule::none:
      return 1;
    case RateRule::linear:
      return ratio;
    case RateRule::square_root:
      return std::sqrt(ratio);
  }
  raise<InternalError>(kTag, "unknown rule {}", static_cast<int>(rule));
}

void check_recipe(const RateRecipe& recipe, int64_t batch) {
  expect<ValueError>(recipe.rate > 0 && std::isfinite(recipe.rate), kTag,
                     "expected a rate above 0, got {}", recipe.rate);
  expect<ValueError>(recipe.batch > 0, kTag, "expected a recipe's batch above 0, got {}",
                     recipe.batch);
  expect<ValueError>(batch > 0, kTag, "expected a batch above 0, got {}", batch);
  expect<ValueError>(
      recipe.warmup >= 0 && recipe.warmup <= std::numeric_limits<int64_t>::max() / recipe.batch,
      kTag, "warmup is out of range: {}", recipe.warmup);
}

}  // namespace

std::string to_string(RateRule rule) { return known(rule).name; }

RateRule rate_rule_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Known& known : kRules)
    if (names.emplace_back(known.name) == name) return known.rule;
  raise<ValueError>(kTag, "expected none, linear or sqrt, got '{}'{}", name,
                    did_you_mean(name, names));
}

ScaledRate scale_rate(const RateRecipe& recipe, int64_t batch, RateRule rule) {
  check_recipe(recipe, batch);
  double ratio = static_cast<double>(batch) / static_cast<double>(recipe.batch);
  int64_t images = recipe.warmup * recipe.batch;
  return {.rate = recipe.rate * factor(ratio, rule),
          .warmup = images / batch + (images % batch > 0 ? 1 : 0)};
}

std::string describe(const RateRecipe& recipe, int64_t batch, RateRule rule) {
  return fmt::format("rate {:g}: {:g} at batch {}, {} ({})", scale_rate(recipe, batch, rule).rate,
                     recipe.rate, recipe.batch, known(rule).in_words, known(rule).name);
}

}  // namespace brim::optim
