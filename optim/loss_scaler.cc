#include "brim/optim/loss_scaler.h"

#include <cmath>
#include <limits>
#include <utility>

namespace brim::optim {
namespace {

constexpr const char* kTag = "loss scaler";
// As a gradient the scale is a float.
constexpr double kLargest = std::numeric_limits<float>::max();

void require(bool holds, const char* what, double value) {
  expect<ValueError>(holds, kTag, "expected {}, got {}", what, value);
}

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& options)
    : options_(options), state_{.scale = options.initial} {
  require(options.floor >= std::numeric_limits<float>::min() && options.floor <= kLargest,
          "a floor that is a normal float32 above 0", options.floor);
  require(options.initial >= options.floor && options.initial <= kLargest,
          "an initial scale from the floor to float32's largest number", options.initial);
  require(options.growth >= 1 && std::isfinite(options.growth), "a growth of at least 1",
          options.growth);
  require(options.backoff > 0 && options.backoff <= 1, "a backoff above 0 and at most 1",
          options.backoff);
  require(options.growth_interval >= 1, "a growth_interval of at least 1",
          static_cast<double>(options.growth_interval));
}

LossScaler LossScaler::fixed(double scale) {
  return LossScaler(
      {.initial = scale, .growth = 1, .backoff = 1, .floor = std::numeric_limits<float>::min()});
}

std::optional<std::string> LossScaler::prepare(Optimizer& optimizer, UpdateOptions options) {
  options.loss_scale = scale();
  options.check_finite = true;
  std::optional<std::string> overflow = optimizer.prepare_if_finite(options);
  if (overflow) note_overflow();
  return overflow;
}

std::optional<std::string> LossScaler::step(Optimizer& optimizer, UpdateOptions options) {
  std::optional<std::string> overflow = prepare(optimizer, options);
  optimizer.commit();  // nothing where nothing was prepared
  return overflow;
}

void LossScaler::update() {
  if (std::exchange(overflowed_, false)) {
    expect<ValueError>(!is_at_floor(), kTag,
                       "gradients overflow at every scale down to {}; the floor is {}",
                       state_.scale, options_.floor);
    state_ = {.scale = options_.backoff * state_.scale};
    return;
  }
  if (++state_.finite_in_a_row < options_.growth_interval) return;
  const double next = options_.growth * state_.scale;
  state_ = {.scale = next <= kLargest ? next : state_.scale};
}

void LossScaler::set_state(const LossScalerState& state) {
  require(state.scale >= options_.floor && state.scale <= kLargest,
          "a scale from the floor to float32's largest number", state.scale);
  require(state.finite_in_a_row >= 0 && state.finite_in_a_row < options_.growth_interval,
          "a number of updates from 0 to below growth_interval",
          static_cast<double>(state.finite_in_a_row));
  state_ = state;
}

}  // namespace brim::optim
