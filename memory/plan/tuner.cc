#include "brim/memory/plan/tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace brim::memory::packing {

Tuner::Tuner(std::span<const int> options) {
  for (int count : options)
    settings_.push_back({.options = std::vector<Option>(static_cast<size_t>(count))});
}

void Tuner::choose(RandomStream& random) {
  for (Setting& setting : settings_) {
    double best = 0;
    int equals = 0;
    for (int i = 0; i < static_cast<int>(setting.options.size()); ++i) {
      double value = worth(setting.options[static_cast<size_t>(i)]);
      if (equals > 0 && value < best) continue;
      equals = equals > 0 && value == best ? equals + 1 : 1;
      best = value;
      if (random.below(static_cast<uint64_t>(equals)) == 0) setting.chosen = i;
    }
  }
}

void Tuner::learn(double reward) {
  for (Setting& setting : settings_) {
    Option& option = setting.options[static_cast<size_t>(setting.chosen)];
    option.rewards += reward;
    ++option.runs;
  }
  rewards_ += reward;
  squares_ += reward * reward;
  ++runs_;
}

void Tuner::forget() {
  for (Setting& setting : settings_) std::ranges::fill(setting.options, Option{});
  rewards_ = squares_ = 0;
  runs_ = 0;
}

double Tuner::worth(const Option& option) const {
  if (option.runs == 0) return std::numeric_limits<double>::infinity();
  double mean = rewards_ / runs_;
  double deviation = std::sqrt(std::max(0.0, squares_ / runs_ - mean * mean));
  return option.rewards / option.runs + deviation * std::sqrt(std::log(runs_ + 1.0) / option.runs);
}

}  // namespace brim::memory::packing
