// One greedy packing: fill the lowest hollow of the skyline, again and again. The packer's own;
// programs call pack.h. O(log n) a buffer as a rule, so it also serves where no search can.
//
// Time runs to the right, offsets upwards; the skyline is the upper edge of what lies already. The
// lowest stretch [a, z) of it takes, of the buffers that live inside it, the one that comes first
// in an order that the caller chose; where none does, it is filled up to its lower neighbour. (The
// lowest position first: Burke, Kendall and Whitwell, "A new placement heuristic for the orthogonal
// stock-cutting problem", Operations Research 52, 2004.)
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "brim/memory/plan/fit_tree.h"
#include "brim/memory/plan/instance.h"

namespace brim::memory::packing {

struct SkylineOptions {
  float edge_bonus = 0;  ///< taken off a rank for each end of the stretch that the buffer reaches
  int64_t limit = std::numeric_limits<int64_t>::max();  ///< give up when something ends above
};

class Skyline {
 public:
  static constexpr int64_t kGaveUp = -1;

  /// Keeps a reference to `instance`.
  explicit Skyline(const Instance& instance);

  /// Packs in the order of `ranks`, lowest first, into `offsets()`. Returns the height, or kGaveUp.
  int64_t pack(std::span<const float> ranks, const SkylineOptions& options);
  const std::vector<int64_t>& offsets() const { return offsets_; }
  /// Buffers that the last `pack` placed.
  int64_t placed() const { return placed_; }

 private:
  struct Stretch {
    int64_t height = 0;
    int32_t begin = 0, end = 0;
    friend auto operator<=>(const Stretch&, const Stretch&) = default;
  };

  void reset(std::span<const float> ranks);
  Stretch pop_lowest();
  int32_t choose(const Stretch& stretch, float edge_bonus) const;
  void add(Stretch stretch);
  void remove(int32_t begin);
  int64_t height_before(int32_t section) const;
  int64_t height_from(int32_t section) const;

  const Instance& instance_;
  FitTree tree_;
  std::span<const float> ranks_;
  std::vector<int64_t> offsets_;
  std::vector<int32_t> end_;     // of a stretch, by the section where it begins; or 0
  std::vector<int32_t> begin_;   // of a stretch, by the section where it ends; or -1
  std::vector<int64_t> height_;  // by the section where it begins
  std::vector<Stretch> heap_;    // lowest first; some are no longer there
  int64_t placed_ = 0;
};

}  // namespace brim::memory::packing
