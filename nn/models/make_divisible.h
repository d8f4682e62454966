// Channels of mobile models: scaled by a width, they stay multiples of 8, as hardware likes them.
// The rule is that of the MobileNet papers' own code; other families round in other ways.
#pragma once

#include <algorithm>
#include <cstdint>

namespace brim::nn {

/// The nearest multiple of 8, at least 8 and not less than 90% of what is wanted.
inline int64_t make_divisible(double wanted) {
  int64_t rounded = std::max<int64_t>(8, static_cast<int64_t>(wanted + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * wanted ? rounded + 8 : rounded;
}

}  // namespace brim::nn
