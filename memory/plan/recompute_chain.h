// The best sequence of segments for a budget: a dynamic program over cuts and kept bytes. What it
// calls a peak is an upper bound of the true one, since bytes that one segment keeps count for all
// later ones. The planner's own; programs call recompute.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "brim/memory/plan/recompute_segments.h"

namespace brim::memory::recompute {

struct ChainPlan {
  std::vector<Fate> saving;
  int64_t peak = 0;    ///< no less than the true one; without the fixed bytes
  double seconds = 0;  ///< of replays
};

class Chain {
 public:
  /// Keeps references.
  Chain(const FlatGraph& graph, const SegmentTable& table);

  /// The quickest found within `budget` bytes, fixed bytes not among them; none where none fits.
  std::optional<ChainPlan> plan(int64_t budget);
  /// That with the least peak by this reckoning.
  ChainPlan least() { return *plan(least_.front()); }
  /// Options looked at.
  int64_t transitions() const { return transitions_; }

 private:
  struct State {
    double seconds = 0;  // below 0: not reached
    int64_t kept = 0;
    int32_t segment = -1, option = 0, bucket_before = 0;
  };

  void extend(int32_t segment, int64_t budget);
  ChainPlan collect() const;

  const FlatGraph& graph_;
  const SegmentTable& table_;
  std::vector<int64_t> least_;              // by cut: the least peak from there to the end
  std::vector<std::vector<State>> states_;  // by cut and bucket
  int64_t transitions_ = 0;
};

}  // namespace brim::memory::recompute
