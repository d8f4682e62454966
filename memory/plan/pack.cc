#include "brim/memory/plan/pack.h"

#include <algorithm>
#include <limits>

#include "brim/base/error.h"
#include "brim/memory/plan/check_packing.h"
#include "brim/memory/plan/ladder.h"

namespace brim::memory {
namespace {

constexpr const char* kTag = "pack";
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

void check_options(const PackOptions& options) {
  expect<ValueError>(options.alignment > 0, kTag, "expected an alignment above 0, got {}",
                     options.alignment);
  expect<ValueError>(options.capacity >= 0, kTag, "expected a capacity from 0, got {}",
                     options.capacity);
  expect<ValueError>(options.nodes >= 0, kTag, "expected a number of nodes from 0, got {}",
                     options.nodes);
}

void check_lifetime(const Lifetime& life, size_t i) {
  expect<ValueError>(life.lower < life.upper, kTag,
                     "expected buffer {} to begin before it ends, got [{}, {})", i, life.lower,
                     life.upper);
  expect<ValueError>(life.size >= 0, kTag, "expected a size from 0 of buffer {}, got {}", i,
                     life.size);
}

/// Rounded up to the alignment.
std::vector<int64_t> checked_sizes(std::span<const Lifetime> lifetimes,
                                   const PackOptions& options) {
  std::vector<int64_t> sizes;
  sizes.reserve(lifetimes.size());
  int64_t left = kMost;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    check_lifetime(lifetimes[i], i);
    int64_t size = lifetimes[i].size, over = size % options.alignment;
    int64_t added = over == 0 ? 0 : options.alignment - over;
    expect<ValueError>(size <= left && added <= left - size, kTag,
                       "expected sizes that add up to less than 2^63, got more by buffer {}", i);
    sizes.push_back(size + added);
    left -= size + added;
    expect<ValueError>(options.capacity == 0 || sizes.back() <= options.capacity, kTag,
                       "expected a capacity of at least {} bytes, the size of buffer {}, got {}",
                       sizes.back(), i, options.capacity);
  }
  return sizes;
}

}  // namespace

double Packing::gap() const {
  return lower_bound == 0 ? 0 : static_cast<double>(height) / static_cast<double>(lower_bound) - 1;
}

Packing pack(std::span<const Lifetime> lifetimes, const PackOptions& options) {
  check_options(options);
  std::vector<int64_t> sizes = checked_sizes(lifetimes, options);
  packing::Ladder ladder(packing::reduce(lifetimes, sizes), {.capacity = options.capacity,
                                                             .nodes = options.nodes,
                                                             .key = RandomKey{options.seed},
                                                             .stop = options.stop});
  Packing result = ladder.climb();
  check_packing(lifetimes, result.offsets, result.height, options.alignment);
  return result;
}

}  // namespace brim::memory
