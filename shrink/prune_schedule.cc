#include "brim/shrink/prune_schedule.h"

#include <cmath>

#include "brim/base/error.h"

namespace brim::shrink {

void PruneSchedule::validate() const {
  constexpr const char* kTag = "prune schedule";
  expect<ValueError>(target > 0 && target <= 1, kTag, "expected a target in (0, 1], got {}",
                     target);
  expect<ValueError>(begin >= 0 && end >= begin, kTag,
                     "expected updates from 0, the last not before the first, got {} to {}", begin,
                     end);
  expect<ValueError>(every >= 1, kTag, "expected at least 1 update between two, got {}", every);
}

std::optional<double> PruneSchedule::at(int64_t updates) const {
  if (updates < begin || updates > end || (updates - begin) % every != 0) return {};
  const int64_t left = count() - 1 - (updates - begin) / every;
  const double rest = static_cast<double>(left) / static_cast<double>(count());
  return target + (1 - target) * std::pow(rest, 3);
}

}  // namespace brim::shrink
