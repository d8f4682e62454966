// The orders in which greedy packings and searches prefer buffers. None is good for all problems,
// and trying all of them is cheap. The packer's own.
#pragma once

#include <array>
#include <vector>

#include "brim/base/random.h"
#include "brim/memory/plan/instance.h"

namespace brim::memory::packing {

inline constexpr int kOrders = 8;

/// What reaching an edge of its place is worth to a buffer, in shares of all ranks.
inline constexpr std::array<float, 4> kEdgeBonuses = {0.1f, 0, 1, 3};

/// Of each buffer its place in the order, from 0: it comes first.
std::vector<float> ranks_of(const Instance& instance, int order);

/// Adds to each rank a normal deviate times `share` times the number of ranks.
void add_noise(std::vector<float>& ranks, float share, RandomStream& random);

}  // namespace brim::memory::packing
