#include "brim/memory/plan/lifetime.h"

#include <algorithm>

namespace brim::memory {

std::vector<int64_t> live_bytes(std::span<const Lifetime> lifetimes, int64_t end) {
  std::vector<int64_t> live(static_cast<size_t>(end) + 1);
  for (const Lifetime& lifetime : lifetimes) {
    live[static_cast<size_t>(lifetime.lower)] += lifetime.size;
    live[static_cast<size_t>(lifetime.upper)] -= lifetime.size;
  }
  for (size_t t = 1; t < live.size(); ++t) live[t] += live[t - 1];
  live.pop_back();
  return live;
}

int64_t most_live(std::span<const Lifetime> lifetimes, int64_t end) {
  std::vector<int64_t> live = live_bytes(lifetimes, end);
  return live.empty() ? 0 : std::ranges::max(live);
}

}  // namespace brim::memory
