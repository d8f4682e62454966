#include "brim/train/remedies.h"

#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/memory/plan/batch.h"

namespace brim {
namespace {

// The smallest batch that there is a plan for: batch norm wants two values per channel, also in the
// last part of an update.
BatchChoice least_batch(const PlanBatch& plan, int64_t batch) {
  for (int64_t least = 1; least <= batch; ++least)
    if (auto memory = plan(least)) return {least, *memory};
  raise<ValueError>("remedies", "there is no plan for batch {}", batch);
}

}  // namespace

std::string to_string(const BatchChoice& choice) {
  return fmt::format("batch {} fits: predicted peak {}", choice.batch,
                     format_bytes(choice.memory.peak_reserved));
}

SmallerBatch find_smaller_batch(const PlanBatch& plan, int64_t batch, int64_t limit) {
  SmallerBatch found{.least = least_batch(plan, batch)};
  if (found.least.batch >= batch || found.least.memory.peak_reserved > limit) return found;
  found.fits = found.least;
  // Each that fits is larger than the one before.
  auto bytes = [&](int64_t larger) {
    if (larger == found.least.batch) return found.least.memory.peak_reserved;
    auto memory = plan(larger);
    if (!memory) return limit + 1;
    if (memory->peak_reserved <= limit) found.fits = {larger, *memory};
    return memory->peak_reserved;
  };
  memory::largest_batch(
      {.bytes = bytes, .limit = limit, .least = found.least.batch, .most = batch - 1});
  return found;
}

memory::OutOfMemory with_remedies(const memory::OutOfMemory& error, const PlanBatch& plan,
                                  int64_t batch) {
  const memory::Shortage& shortage = error.shortage();
  if (shortage.injected) return error;
  try {
    auto here = plan(batch);
    if (!here) return error;
    // The step was undone: what is held beyond its state is not the training's.
    int64_t others = memory::account(shortage.device)->stats().live - here->state;
    int64_t limit = shortage.total - std::max<int64_t>(others, 0);
    auto found = find_smaller_batch(plan, batch, limit);
    return found.fits ? error.with_remedies({to_string(*found.fits)}) : error;
  } catch (const std::exception&) {
    return error;  // which is the one to see
  }
}

}  // namespace brim
