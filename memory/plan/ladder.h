// What is tried, and for how long: greedy packings first, then searches at the lower bound, and,
// while that fails, at capacities between the bound and the best height so far. The packer's own;
// programs call pack.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/plan/instance.h"
#include "brim/memory/plan/pack.h"
#include "brim/memory/plan/tree_search.h"

namespace brim::memory::packing {

struct LadderOptions {
  int64_t capacity = 0;  ///< bytes; no size is above. 0: none is given
  int64_t nodes = 0;
  RandomKey key;
  std::function<bool()> stop;
};

class Ladder {
 public:
  Ladder(Reduced problem, const LadderOptions& options);
  Ladder(const Ladder&) = delete;
  Ladder& operator=(const Ladder&) = delete;

  Packing climb();

 private:
  /// A component with the best packing of it so far.
  struct Piece {
    Component component;
    std::vector<int64_t> offsets;  // above the base
    int64_t height = 0;            // of that packing, above the base
    int order = 0;                 // of the best greedy packing
    float edge_bonus = 0;

    int64_t top() const { return component.base + height; }
  };

  bool done() const { return height() <= goal_ || nodes_ <= 0 || stopped_; }
  int64_t height() const;
  void pack_greedily(Piece& piece);
  void search_given();
  void search_lowest();
  Outcome attempt(int64_t capacity, int64_t nodes);
  Outcome attempt(Piece& piece, int64_t capacity, int64_t nodes);
  Outcome shake(Piece& piece, int64_t capacity, int64_t nodes);
  template <class Int>
  Outcome search(Piece& piece, int64_t capacity, int64_t nodes);
  Packing result() const;

  Reduced problem_;
  std::vector<Piece> pieces_;
  int64_t capacity_;  // in units; 0: none
  int64_t proved_;    // no packing is lower than this
  int64_t goal_;      // where to stop
  int64_t nodes_;     // that are left
  RandomKey key_;
  uint64_t attempts_ = 0;
  bool stopped_ = false;
  std::function<bool()> stop_;  // sets `stopped_`
};

}  // namespace brim::memory::packing
