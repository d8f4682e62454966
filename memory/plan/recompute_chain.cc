#include "brim/memory/plan/recompute_chain.h"

#include <algorithm>
#include <limits>

namespace brim::memory::recompute {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kBuckets = 300;

}  // namespace

Chain::Chain(const FlatGraph& graph, const SegmentTable& table)
    : graph_(graph), table_(table), least_(table.cuts().size(), kMost) {
  least_.back() = 0;
  const auto segments = table.segments();
  for (size_t i = segments.size(); i-- > 0;)
    for (const Option& option : segments[i].options) {
      int64_t rest = least_[at(segments[i].end)];
      if (rest == kMost) continue;
      int64_t& least = least_[at(segments[i].begin)];
      least = std::min(least, std::max(option.peak, option.kept + rest));
    }
}

std::optional<ChainPlan> Chain::plan(int64_t budget) {
  if (budget < least_.front()) return std::nullopt;
  states_.assign(table_.cuts().size(), std::vector<State>(at(kBuckets), State{.seconds = -1}));
  states_[0][0].seconds = 0;
  for (size_t i = 0; i < table_.segments().size(); ++i) extend(static_cast<int32_t>(i), budget);
  return collect();
}

/// A bucket holds the quickest of the states whose kept bytes fall into it, with its exact bytes.
void Chain::extend(int32_t segment, int64_t budget) {
  const Segment& s = table_.segments()[at(segment)];
  const int64_t rest = least_[at(s.end)], width = budget / kBuckets + 1;
  if (rest == kMost) return;
  for (int32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const State& from = states_[at(s.begin)][at(bucket)];
    if (from.seconds < 0) continue;
    for (size_t i = 0; i < s.options.size(); ++i) {
      const Option& option = s.options[i];
      ++transitions_;
      const int64_t kept = from.kept + option.kept;
      if (from.kept + option.peak > budget || kept + rest > budget) continue;
      State& to = states_[at(s.end)][at(kept / width)];
      const double seconds = from.seconds + option.seconds;
      if (to.seconds >= 0 && (seconds > to.seconds || (seconds == to.seconds && kept >= to.kept)))
        continue;
      to = {seconds, kept, segment, static_cast<int32_t>(i), bucket};
    }
  }
}

ChainPlan Chain::collect() const {
  const auto& last = states_.back();
  int32_t bucket = -1;
  for (int32_t b = 0; b < kBuckets; ++b)
    if (last[at(b)].seconds >= 0 && (bucket < 0 || last[at(b)].seconds < last[at(bucket)].seconds))
      bucket = b;
  ChainPlan plan{.saving = graph_.all_kept(), .seconds = last[at(bucket)].seconds};
  for (size_t cut = states_.size() - 1; cut > 0;) {
    const State& state = states_[cut][at(bucket)];
    const Segment& segment = table_.segments()[at(state.segment)];
    const Option& option = segment.options[at(state.option)];
    table_.apply(segment, option.recipe, plan.saving);
    const State& before = states_[at(segment.begin)][at(state.bucket_before)];
    plan.peak = std::max(plan.peak, before.kept + option.peak);
    bucket = state.bucket_before;
    cut = at(segment.begin);
  }
  return plan;
}

}  // namespace brim::memory::recompute
