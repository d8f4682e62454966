// Seconds, and what a handful of them says: the middle, the ends, and an interval for the middle.
// For ratios of two programs measure them in turns and take the ratio of each round: then a slow
// moment of the machine hits both.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

namespace brim::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class Work>
double seconds_of(const Work& work) {
  const auto start = Clock::now();
  work();
  return seconds_since(start);
}

struct Spread {
  double median = 0, least = 0, most = 0;
  /// A 95% interval of the median by order statistics; with fewer than six values, the ends.
  double low = 0, high = 0;
};

/// Of at least one value; of an even number the upper of the two in the middle.
inline Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  const auto low = static_cast<size_t>(std::max(0.0, std::floor(n / 2 - 0.98 * std::sqrt(n))));
  return {.median = values[values.size() / 2],
          .least = values.front(),
          .most = values.back(),
          .low = values[low],
          .high = values[values.size() - 1 - low]};
}

inline double median(std::vector<double> values) { return spread_of(std::move(values)).median; }

/// Two pieces of work in turns, the order changing from pair to pair.
struct Pairs {
  Spread ratio;              ///< second / first, of each pair
  double first_seconds = 0;  ///< of all runs of the first
};
/// Of at least one pair. Warm both up before.
template <class First, class Second>
Pairs in_pairs(int pairs, const First& first, const Second& second) {
  std::vector<double> ratios;
  double all = 0;
  for (int i = 0; i < pairs; ++i) {
    double one = 0, other = 0;
    if (i % 2 == 0)
      one = seconds_of(first), other = seconds_of(second);
    else
      other = seconds_of(second), one = seconds_of(first);
    ratios.push_back(other / one);
    all += one;
  }
  return {spread_of(std::move(ratios)), all};
}

}  // namespace brim::bench
