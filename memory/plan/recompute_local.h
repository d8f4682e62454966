// Improves a plan by small changes, each simulated: values kept again where they fit, then random
// flips, ranges and swaps. The planner's own; programs call recompute.h.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/plan/recompute_simulator.h"

namespace brim::memory::recompute {

class LocalSearch {
 public:
  /// Keeps references to the graph and the simulator. `budget` is without the fixed bytes.
  LocalSearch(const FlatGraph& graph, Simulator& simulator, std::vector<Fate> saving,
              int64_t budget);

  /// Keeps again what fits, what takes the most seconds per byte first; at most about `work`
  /// moments of simulations.
  void keep_what_fits(int64_t work);
  /// `simulations` random changes, and at most about `work` moments. `heat`, in seconds,
  /// is about how much one may cost at first.
  void shake(int64_t simulations, int64_t work, double heat, RandomKey key);
  /// The same for a lower peak at any number of seconds, with a budget of 0.
  void lower_peak(int64_t simulations, int64_t work, RandomKey key);

  /// The quickest so far that fits, of equal ones that which copies least; while none fits, that
  /// with the lowest peak.
  const std::vector<Fate>& saving() const { return best_; }
  const Cost& cost() const { return best_cost_; }

 private:
  struct Schedule {
    int64_t simulations, work;   // the first of them to be reached ends it
    double heat;                 // at the beginning, as a price
    bool seconds_are_the_price;  // at least: a simulation may end early
  };

  template <class Price>
  void anneal(const Schedule& schedule, RandomKey key, const Price& price_of);
  bool better(const Cost& a, const Cost& b) const;
  bool accept(double slack);
  void put(int32_t value, Fate saving);
  void undo();
  void change(RandomStream& random);
  void remember_best();

  const FlatGraph& graph_;
  Simulator& simulator_;
  int64_t budget_;
  std::vector<int32_t> free_;  // values about which there is a choice
  size_t fates_;               // how many there are
  std::vector<Fate> saving_, best_;
  Cost cost_, best_cost_;
  std::vector<std::pair<int32_t, Fate>> undo_;  // what values were before the change
};

}  // namespace brim::memory::recompute
