#include "brim/memory/plan/recompute_segments.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <tuple>

#include "brim/memory/plan/recompute_cuts.h"
#include "brim/memory/plan/side_by_side.h"

namespace brim::memory::recompute {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int32_t kLeastCuts = 24, kMostCuts = 160;
constexpr int kQuantiles = 6;
constexpr int64_t kRecipes = 6 * (kQuantiles + 1);
constexpr int64_t kMomentsOfOp = 3;  // forward, a replay, backward
constexpr int32_t kEveryLength = 12;
constexpr int64_t kReplaysOfOp = 8;  // more, and a segment is not worth looking at

/// Lengths of segments, in cuts: each of the short ones, then with growing gaps up to all there is.
std::vector<int32_t> lengths_up_to(int32_t most) {
  std::vector<int32_t> lengths;
  for (int32_t length = 1; length < most;
       length = length < kEveryLength ? length + 1 : length + length / 5)
    lengths.push_back(length);
  lengths.push_back(most);
  return lengths;
}

/// Moments that it takes to simulate all segments of that many cuts.
int64_t work_of(int64_t ops, int32_t cuts) {
  int64_t cut_lengths = 0;
  for (int64_t length : lengths_up_to(cuts)) cut_lengths += length * (cuts - length + 1);
  return cut_lengths * (ops / cuts + 1) * kRecipes * kMomentsOfOp;
}

int32_t affordable_cuts(const FlatGraph& graph, int64_t work) {
  int32_t cuts = kMostCuts;
  while (cuts > kLeastCuts && work_of(graph.ops(), cuts) > work) cuts -= cuts / 8;
  return cuts;
}

/// Between classes of seconds per byte with about as many values each; the last is above all.
std::vector<double> find_thresholds(const FlatGraph& graph) {
  std::vector<double> densities;
  for (int32_t v = 0; v < graph.values(); ++v)
    if (graph.may_drop[at(v)] && !graph.cheap[at(v)]) densities.push_back(graph.density[at(v)]);
  std::ranges::sort(densities);
  std::vector<double> thresholds{-1};
  for (size_t i = 1; !densities.empty() && i < kQuantiles; ++i) {
    double threshold = densities[i * densities.size() / kQuantiles];
    if (threshold > thresholds.back()) thresholds.push_back(threshold);
  }
  thresholds.push_back(kNever);
  return thresholds;
}

bool as_good(const Option& a, const Option& b) {
  return a.kept <= b.kept && a.peak <= b.peak && a.seconds <= b.seconds;
}

/// Leaves what no other is as good as.
void prune(std::vector<Option>& options) {
  std::ranges::sort(options, {},
                    [](const Option& o) { return std::tuple(o.seconds, o.peak, o.kept); });
  size_t left = 0;
  for (size_t i = 0; i < options.size(); ++i) {
    bool beaten = false;
    for (size_t k = 0; k < left && !beaten; ++k) beaten = as_good(options[k], options[i]);
    if (!beaten) options[left++] = options[i];
  }
  options.resize(left);
}

}  // namespace

SegmentTable::SegmentTable(const FlatGraph& graph, int64_t work)
    : graph_(graph),
      cuts_(choose_cuts(graph, affordable_cuts(graph, work))),
      thresholds_(find_thresholds(graph)) {
  list_segments();
  std::atomic<int64_t> simulations = 0;
  side_by_side(
      std::ssize(segments_),
      [&] {
        return Bench{Simulator(graph_), graph_.all_kept()};
      },
      [&](Bench& bench, int64_t i) {
        const int64_t before = bench.simulator.runs();
        find_options(segments_[at(i)], bench);
        simulations += bench.simulator.runs() - before;
      });
  simulations_ = simulations;
}

void SegmentTable::list_segments() {
  const auto count = static_cast<int32_t>(cuts_.size()) - 1;
  if (count == 0) return;
  const std::vector<int32_t> lengths = lengths_up_to(count);
  for (int32_t end = 1; end <= count; ++end)
    for (auto length = lengths.rbegin(); length != lengths.rend(); ++length)
      if (*length <= end) segments_.push_back({end - *length, end, {}});
}

Range SegmentTable::range_of(const Segment& segment) const {
  const int32_t first = cuts_[at(segment.begin)], end = cuts_[at(segment.end)];
  // Anchors fall from step to step.
  auto step_below = [&](int32_t op) {
    auto found = std::ranges::partition_point(graph_.anchor, [&](int32_t a) { return a >= op; });
    return static_cast<int32_t>(found - graph_.anchor.begin());
  };
  return {first, end, step_below(end), first == 0 ? graph_.steps() : step_below(first)};
}

/// Only such as decide differently.
std::vector<Recipe> SegmentTable::recipes_for(const Range& range) const {
  std::vector<double> densities;
  bool cheap = false;
  for (int32_t v = graph_.first_output[at(range.first_op)];
       v < graph_.first_output[at(range.end_op)]; ++v) {
    if (!graph_.may_drop[at(v)] || graph_.last_use[at(v)] >= range.end_op) continue;
    if (graph_.cheap[at(v)])
      cheap = true;
    else
      densities.push_back(graph_.density[at(v)]);
  }
  std::vector<Recipe> recipes;
  int64_t dropped_before = -1;
  for (double threshold : thresholds_) {
    int64_t dropped = std::ranges::count_if(densities, [&](double d) { return d <= threshold; });
    if (dropped == dropped_before) continue;
    dropped_before = dropped;
    for (Fate costly : {Fate::retain, Fate::remake})
      for (Fate saving : {Fate::keep, Fate::retain, Fate::remake})
        if ((cheap || saving == Fate::keep) && (dropped > 0 || costly == Fate::retain))
          recipes.push_back({threshold, costly, saving});
  }
  return recipes;
}

void SegmentTable::apply(const Segment& segment, const Recipe& recipe,
                         std::vector<Fate>& saving) const {
  const int32_t end = cuts_[at(segment.end)];
  for (int32_t v = graph_.first_output[at(cuts_[at(segment.begin)])];
       v < graph_.first_output[at(end)]; ++v) {
    const bool kept = !graph_.may_drop[at(v)] || graph_.last_use[at(v)] >= end;
    const Fate costly = graph_.density[at(v)] > recipe.threshold ? Fate::keep : recipe.costly;
    saving[at(v)] = kept ? Fate::keep : graph_.cheap[at(v)] ? recipe.cheap : costly;
  }
}

void SegmentTable::find_options(Segment& segment, Bench& bench) const {
  const Range range = range_of(segment);
  const Limits limits{.replays = kReplaysOfOp * (range.end_op - range.first_op) + kReplaysOfOp};
  for (const Recipe& recipe : recipes_for(range)) {
    apply(segment, recipe, bench.saving);
    const Cost cost = bench.simulator.run(range, bench.saving, limits);
    if (cost.finished) segment.options.push_back({cost.kept, cost.peak, cost.seconds, recipe});
  }
  prune(segment.options);
}

}  // namespace brim::memory::recompute
