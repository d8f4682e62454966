// Greedy packings in orders that are shaken a little, again and again, from the best one so far:
// for problems that are too large for a tree. The packer's own; programs call pack.h.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/plan/skyline.h"
#include "brim/memory/plan/tree_search.h"

namespace brim::memory::packing {

class Shaker {
 public:
  /// Begins with an order and its bonus. Keeps a reference to `instance`; does without packings
  /// that are not lower than `height`.
  Shaker(const Instance& instance, std::vector<float> ranks, float edge_bonus, int64_t height,
         int64_t capacity, RandomKey key);

  /// Places `nodes` more buffers; a packing is always completed, and counted on later runs.
  Outcome run(int64_t nodes);
  Outcome outcome() const { return height_ <= capacity_ ? Outcome::packed : Outcome::unfinished; }
  int64_t height() const { return height_; }
  /// Of the best packing that is lower than where it began; else empty.
  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  void shake();

  Skyline skyline_;
  std::vector<float> ranks_, shaken_;
  float edge_bonus_;
  int64_t height_, capacity_, allowed_ = 0;
  std::vector<int64_t> offsets_;
  RandomStream random_;
};

}  // namespace brim::memory::packing
