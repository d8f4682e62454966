// Segments between cuts, each with some ways to save what it makes and what they cost: kept bytes,
// peak, seconds. They say nothing of a budget, so one table serves every budget. The planner's own;
// programs call recompute.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "brim/memory/plan/recompute_flat.h"
#include "brim/memory/plan/recompute_simulator.h"

namespace brim::memory::recompute {

/// How a segment saves what does not cross its end: what is not cheap is kept where its seconds
/// per byte are above a threshold, and else all in one way, as is what is cheap.
struct Recipe {
  double threshold = 0;
  Fate costly = Fate::retain;
  Fate cheap = Fate::keep;
};

struct Option {
  int64_t kept = 0;  ///< bytes that the segment adds to what later segments find
  int64_t peak = 0;  ///< of the segment, without what earlier segments kept
  double seconds = 0;
  Recipe recipe;
};

struct Segment {
  int32_t begin = 0, end = 0;   ///< cuts, by index
  std::vector<Option> options;  ///< none is as good as another in all three; by seconds
};

class SegmentTable {
 public:
  /// Simulates at most about `work` moments.
  SegmentTable(const FlatGraph& graph, int64_t work);

  std::span<const int32_t> cuts() const { return cuts_; }
  /// By `end`, then by `begin`; together they lead from the first cut to the last.
  std::span<const Segment> segments() const { return segments_; }
  /// Writes what an option decides for the values that its segment makes.
  void apply(const Segment& segment, const Recipe& recipe, std::vector<Fate>& saving) const;
  int64_t simulations() const { return simulations_; }

 private:
  struct Bench {  // of a thread
    Simulator simulator;
    std::vector<Fate> saving;
  };

  Range range_of(const Segment& segment) const;
  void list_segments();
  void find_options(Segment& segment, Bench& bench) const;
  std::vector<Recipe> recipes_for(const Range& range) const;

  const FlatGraph& graph_;
  std::vector<int32_t> cuts_;
  std::vector<double> thresholds_;
  std::vector<Segment> segments_;
  int64_t simulations_ = 0;
};

}  // namespace brim::memory::recompute
