// Which of the buffers that live inside [a, z) comes first? Segment trees over the buffers, by
// their beginning and by their end, with the lowest rank below each node; buffers can be taken
// away. The skyline's own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "brim/memory/plan/instance.h"

namespace brim::memory::packing {

class FitTree {
 public:
  static constexpr int32_t kNone = -1;

  /// Keeps a reference to `instance`.
  explicit FitTree(const Instance& instance);

  /// All buffers are there again. The ranks must stay where they are.
  void reset(std::span<const float> ranks);
  void erase(int32_t buffer);

  // The buffer of lowest rank, or kNone; which one of several is always the same.
  int32_t best_inside(int32_t a, int32_t z) const;   ///< first >= a, last <= z
  int32_t best_from(int32_t a, int32_t z) const;     ///< first == a, last <= z
  int32_t best_until(int32_t a, int32_t z) const;    ///< first >= a, last == z
  int32_t best_exactly(int32_t a, int32_t z) const;  ///< first == a, last == z

 private:
  using Tree = std::vector<int32_t>;  // node k has the children 2k and 2k + 1

  int32_t better(int32_t b, int32_t c) const;
  int32_t best_of(const Tree& tree, int32_t begin, int32_t end) const;
  void climb(Tree& tree, size_t leaf) const;
  /// Lowers `best` to the best one below `node` that ends by `z`.
  void descend(size_t node, int32_t z, int32_t& best) const;
  /// How many buffers come before (first, last) in this order; (last, first) in that of the ends.
  int32_t before(int32_t first, int32_t last) const;
  int32_t before_by_end(int32_t last, int32_t first) const;

  const Instance& instance_;
  std::span<const float> ranks_;
  std::vector<int32_t> by_end_, place_by_end_;  // a permutation of the buffers, and its inverse
  std::vector<int32_t> ends_at_;                // of each section: how many end before it
  size_t leaves_ = 1;
  Tree best_, best_by_end_;
  std::vector<int32_t> least_last_;  // as `best_`
};

}  // namespace brim::memory::packing
