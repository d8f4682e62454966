// The values of tensors as plain numbers, and how far two lists of them are apart. For bits of
// float32 alone see `values_of` (small_net.h).
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "brim/nn/module.h"

namespace brim::testing {

/// In order; float64 holds what float32 does.
inline std::vector<double> doubles_of(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<double> all;
  for (const nn::NamedTensor& each : tensors)
    std::ranges::copy(each.tensor.to_vector<double>(), std::back_inserter(all));
  return all;
}

/// Requires as many of both; NaN where a number of either is.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN too, which then stays
    if (std::isnan(largest)) break;
  }
  return largest;
}

}  // namespace brim::testing
