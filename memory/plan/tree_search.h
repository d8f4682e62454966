// Does a problem fit a capacity? A tree search that packs from the bottom upwards over the bounds
// of bounds.h. The packer's own; programs call pack.h. docs/packing.md derives the rules. Work and
// memory grow with the number of (buffer, section) pairs: very large problems are for the skyline.
//
// A node of the tree takes a buffer below which nothing can be placed any more, and either places
// it at its bound or postpones it. Random jumps back up the path, and restarts in other orders,
// keep the search from spending its time below one early mistake. A jump back to a node only begins
// the subtree below it afresh, so when nothing is left to try, nothing fits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/plan/bounds.h"
#include "brim/memory/plan/instance.h"
#include "brim/memory/plan/tuner.h"

namespace brim::memory::packing {

enum class Outcome { unfinished, packed, infeasible };

template <class Int>
class TreeSearch {
 public:
  /// Keeps a reference to `instance`.
  TreeSearch(const Instance& instance, int64_t capacity, RandomKey key);

  /// Visits nodes that count for `nodes` more; where one takes much work, it counts for several.
  Outcome run(int64_t nodes);
  Outcome outcome() const { return outcome_; }
  /// Of the packing, in units.
  std::vector<int64_t> offsets() const;

 private:
  /// By which section the next buffer is looked for.
  enum class Rule { failures_by_slack, failures, floor };
  /// What a run chooses; how deep it came says how well that suits the problem.
  enum Setting { kOrder, kEdgeBonus, kRule, kPatience };

  void restart();
  void jump_back();
  int64_t spent() const;
  bool step();
  bool retreat();
  int32_t choose_section() const;
  int32_t choose_buffer() const;
  bool comes_before(int32_t b, int32_t c) const;
  float score(int32_t b) const;
  float edge_score(int32_t b, int32_t section) const;

  const Instance& instance_;
  Bounds<Int> bounds_;
  RandomStream random_;
  std::vector<std::vector<float>> orders_;
  Tuner tuner_;

  // Of this run:
  std::vector<float> ranks_;  // in the chosen order, with noise
  float edge_bonus_ = 0;      // in ranks
  Rule rule_ = Rule::failures_by_slack;
  int64_t patience_ = 0;
  int32_t deepest_ = 0;
  int jumps_ = 0;
  int64_t visits_since_ = 0;  // nodes since it last came deeper

  int64_t visits_ = 0;                 // nodes
  int64_t visits_before_patient_ = 0;  // of the last patient run
  int64_t allowed_ = 0;                // nodes, by what they count for
  Outcome outcome_ = Outcome::unfinished;
};

extern template class TreeSearch<int32_t>;
extern template class TreeSearch<int64_t>;

}  // namespace brim::memory::packing
