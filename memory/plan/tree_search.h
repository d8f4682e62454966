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
  /// One way to search; how deep it came on average says how well it suits the problem.
  struct Arm {
    int order = 0;
    float edge_bonus = 0;
    Rule rule = Rule::failures_by_slack;
    double depths = 0;
    int runs = 0;
  };

  void restart();
  void jump_back();
  Arm& choose_arm();
  int64_t spent() const;
  bool step();
  bool retreat();
  int32_t choose_section() const;
  int32_t choose_buffer() const;
  bool comes_before(int32_t b, int32_t c) const;
  float score(int32_t b) const;

  const Instance& instance_;
  Bounds<Int> bounds_;
  RandomStream random_;
  std::vector<std::vector<float>> orders_;
  std::vector<Arm> arms_;

  Arm* arm_ = nullptr;
  std::vector<float> ranks_;               // of the arm's order, with noise
  float edge_bonus_ = 0;                   // in ranks
  int32_t deepest_ = 0;                    // of this run
  int64_t patience_ = 0;                   // of this run
  int64_t visits_ = 0, visits_since_ = 0;  // nodes; since this run last came deeper
  int64_t allowed_ = 0;                    // nodes, by what they count for
  int jumps_ = 0, runs_ = 0;
  Outcome outcome_ = Outcome::unfinished;
};

extern template class TreeSearch<int32_t>;
extern template class TreeSearch<int64_t>;

}  // namespace brim::memory::packing
