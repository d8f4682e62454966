#include "brim/memory/plan/batch.h"

#include <algorithm>

#include "brim/base/error.h"

namespace brim::memory {
namespace {

/// The largest multiple that the bound lets through, counted in multiples; 0 for none. Doubles
/// first: a batch far beyond may take long to ask for.
int64_t largest_bounded(const BatchSearch& search, BatchFound& found) {
  const auto& bound = search.bound ? search.bound : search.bytes;
  auto passes = [&](int64_t count) {
    ++found.asked;
    return bound(count * search.multiple) <= search.limit;
  };
  const int64_t least = search.least / search.multiple, most = search.most / search.multiple;
  if (!passes(least)) {
    found.refused = search.least;
    return 0;
  }
  int64_t low = least, high = most + 1;  // `low` passes, `high` does not or is too many
  while (low < most && high > most) {
    int64_t next = low <= most / 2 ? 2 * low : most;
    (passes(next) ? low : high) = next;
  }
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (passes(middle) ? low : high) = middle;
  }
  if (high <= most) found.refused = high * search.multiple;
  return low;
}

}  // namespace

BatchFound largest_batch(const BatchSearch& search) {
  expect<ValueError>(search.multiple > 0 && search.least > 0 &&
                         search.least % search.multiple == 0 && search.least <= search.most,
                     "batch", "there is no multiple of {} from {} to {}", search.multiple,
                     search.least, search.most);
  BatchFound found;
  int64_t count = largest_bounded(search, found);
  if (!search.bound) {
    found.batch = count * search.multiple;
    return found;
  }
  for (int64_t batch = count * search.multiple; batch >= search.least; batch -= search.multiple) {
    ++found.asked;
    if (search.bytes(batch) > search.limit) continue;
    found.batch = batch;
    break;
  }
  return found;
}

}  // namespace brim::memory
