#include "brim/memory/plan/orders.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

namespace brim::memory::packing {
namespace {

/// The largest sum of live sizes in each buffer's sections: a table of maxima over 2^k sections.
std::vector<double> pressure_of(const Instance& instance) {
  std::vector<std::vector<int64_t>> most{instance.live};
  for (size_t width = 1; 2 * width <= instance.live.size(); width *= 2) {
    std::vector<int64_t> wider(instance.live.size() - 2 * width + 1);
    for (size_t s = 0; s < wider.size(); ++s)
      wider[s] = std::max(most.back()[s], most.back()[s + width]);
    most.push_back(std::move(wider));
  }
  std::vector<double> pressure(instance.size.size());
  for (size_t b = 0; b < pressure.size(); ++b) {
    auto first = static_cast<size_t>(instance.first[b]),
         last = static_cast<size_t>(instance.last[b]);
    size_t width = std::bit_floor(last - first);
    const auto& table = most[static_cast<size_t>(std::countr_zero(width))];
    pressure[b] = static_cast<double>(std::max(table[first], table[last - width]));
  }
  return pressure;
}

/// The keys of an order: the largest comes first.
std::vector<double> keys_of(const Instance& instance, int order) {
  std::vector<double> pressure = pressure_of(instance), keys(pressure.size());
  for (size_t b = 0; b < keys.size(); ++b) {
    double duration = instance.duration[b], size = static_cast<double>(instance.size[b]);
    double sections = instance.last[b] - instance.first[b];
    switch (order) {
      case 0:
        keys[b] = duration;
        break;
      case 1:
        keys[b] = size * duration;
        break;
      case 2:
        keys[b] = pressure[b] * duration;
        break;
      case 3:
        keys[b] = size;
        break;
      case 4:
        keys[b] = sections;
        break;
      case 5:
        keys[b] = size * sections;
        break;
      case 6:
        keys[b] = pressure[b] * size;
        break;
      default:
        keys[b] = pressure[b] * size * std::sqrt(duration);
        break;
    }
  }
  return keys;
}

}  // namespace

std::vector<float> ranks_of(const Instance& instance, int order) {
  std::vector<double> keys = keys_of(instance, order);
  std::vector<int32_t> sorted(keys.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::stable_sort(sorted, std::ranges::greater{},
                           [&](int32_t b) { return keys[static_cast<size_t>(b)]; });
  std::vector<float> ranks(keys.size());
  for (size_t i = 0; i < sorted.size(); ++i)
    ranks[static_cast<size_t>(sorted[i])] = static_cast<float>(i);
  return ranks;
}

void add_noise(std::vector<float>& ranks, float share, RandomStream& random) {
  float scale = share * static_cast<float>(ranks.size());
  for (float& rank : ranks) {
    // 1 - u is above 0, where the logarithm is finite.
    float radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    rank += scale * radius * std::cos(2 * std::numbers::pi_v<float> * random.uniform());
  }
}

}  // namespace brim::memory::packing
