// The state of a tree search: which buffers are placed, and for every other one a lower bound on
// its offset, propagated from section to section. tree_search.h decides; this says what follows.
//
// A packing that fits is looked for among those in which no buffer could be moved to any lower
// place: if one fits, the one with the least sum of offsets is such. In it, each buffer rests on
// the floor or on another. A bound is *supported* when its buffer would rest there on what is
// placed; only there may it be placed.
//
// With r the bounds, p the sizes and K the capacity, over the buffers of one section that are not
// placed yet:
//   one of them lies lowest, all others above it: its r is at most K - sum(p), the threshold;
//   so whoever's r is above the threshold lies above another, and rises to the least r + p of those
//   that can lie lowest;
//   for each i, what has an r of at least r_i fits between r_i and K.
// (From one-machine scheduling with release dates: Carlier, "The one-machine sequencing problem",
// European Journal of Operational Research 11, 1982.)
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "brim/memory/plan/instance.h"

namespace brim::memory::packing {

/// `Int` holds twice the capacity and more.
template <class Int>
class Bounds {
 public:
  static constexpr Int kNoFloor = std::numeric_limits<Int>::max();

  /// Keeps a reference to `instance`. No size may be above the capacity.
  Bounds(const Instance& instance, Int capacity);

  // These return false when nothing fits any more: then only `unplace` may follow.
  bool propagate_all();
  /// Places b at its bound, which is supported, and at most that of any buffer beside it.
  bool place(int32_t b);
  /// Something that is not placed yet will keep b from its bound, which is at most that of any
  /// buffer beside it.
  bool postpone(int32_t b);

  /// Undoes the last `place` and all that followed.
  void unplace();
  /// Steps of the loops over buffers and sections since the beginning.
  int64_t work() const { return work_; }
  int32_t placed() const { return static_cast<int32_t>(levels_.size()); }
  int32_t last_placed() const { return levels_.back().buffer; }
  /// Whether something could keep the last one from its place; else it need not be postponed.
  bool last_is_contested() const { return levels_.back().contested; }

  Int bound(int32_t b) const { return bound_[at(b)]; }
  bool is_supported(int32_t b) const { return supported_[at(b)]; }
  /// Of a section: the least bound of buffers that are not placed, or kNoFloor.
  Int floor(int32_t section) const { return floor_[at(section)]; }
  /// How far the floor may still rise.
  Int slack(int32_t section) const { return threshold_[at(section)] - floor_[at(section)]; }
  /// How often nothing fitted into a section.
  float failures(int32_t section) const { return failures_[at(section)]; }
  /// The buffers of a section that are not placed.
  std::span<const int32_t> waiting(int32_t section) const {
    return {members_.data() + members_at_[at(section)], static_cast<size_t>(waiting_[at(section)])};
  }
  /// Calls `visit` with every buffer that lives at the same time as b and is not placed; b too.
  template <class Visit>
  void for_each_beside(int32_t b, const Visit& visit) const {
    for (int32_t c : waiting(instance_.first[at(b)])) visit(c);
    int32_t end = instance_.begins_at[at(instance_.last[at(b)])];
    for (int32_t c = instance_.begins_at[at(instance_.first[at(b)]) + 1]; c < end; ++c)
      if (!placed_[at(c)]) visit(c);
  }

 private:
  struct BoundChange {
    Int bound;
    int32_t buffer;
    bool supported;
  };
  struct FloorChange {
    Int floor;
    int32_t section, lowest;
  };
  struct Level {
    int32_t buffer;
    bool contested;
    size_t bound_changes, floor_changes;
  };
  struct Waiting {
    Int bound;
    int32_t buffer;
  };

  static size_t at(int32_t i) { return static_cast<size_t>(i); }
  bool are_twins(int32_t b, int32_t c) const;
  void leave_sections(int32_t b);
  void raise(int32_t b, Int bound, bool supported);
  void enqueue(int32_t section);
  bool propagate();
  bool tighten(int32_t section);
  void sort_waiting(int32_t section);
  void set_floor(int32_t section, Int floor, int32_t lowest);

  const Instance& instance_;
  Int capacity_;
  std::vector<Int> size_, bound_;
  std::vector<uint8_t> supported_, placed_;
  // By section. `members_` lists buffers section by section; the first `waiting_` are not placed.
  std::vector<int32_t> members_, waiting_, lowest_;
  std::vector<size_t> members_at_;
  std::vector<Int> threshold_, floor_;
  std::vector<float> failures_;
  std::vector<uint8_t> queued_;

  std::vector<int32_t> queue_;
  int64_t work_ = 0;
  bool too_high_ = false;  // a bound plus size was raised above the capacity
  std::vector<Waiting> line_;
  std::vector<BoundChange> bound_changes_;
  std::vector<FloorChange> floor_changes_;
  std::vector<Level> levels_;
};

extern template class Bounds<int32_t>;
extern template class Bounds<int64_t>;

}  // namespace brim::memory::packing
