// A packing problem made small: time is counted in sections, and sizes in a common unit. The
// packer's own; programs call pack.h.
//
// A section is a largest set of buffers that live at the same time: whatever holds at these moments
// holds at every other. So n buffers have at most n sections, and time between them is forgotten.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "brim/memory/plan/lifetime.h"

namespace brim::memory::packing {

/// Buffers by (first, last, size); buffer b lives in the sections [first[b], last[b]).
struct Instance {
  std::vector<int32_t> first, last;
  std::vector<int64_t> size;       ///< in units, above 0
  std::vector<double> duration;    ///< upper - lower
  std::vector<int32_t> origin;     ///< the buffer's position in the list that is packed
  std::vector<int32_t> begins_at;  ///< of each section, and one past: how many begin before it
  std::vector<int64_t> live;       ///< of each section: the sum of the sizes

  int32_t buffers() const { return static_cast<int32_t>(first.size()); }
  int32_t sections() const { return static_cast<int32_t>(live.size()); }
};

/// Buffers that share no time with others, to be packed in [base, capacity) on their own.
struct Component {
  Instance instance;
  int64_t base = 0;  ///< units below them that are taken
};

/// A problem taken apart, without loss: some packing of the parts is as low as any of the whole.
struct Reduced {
  int64_t unit = 1;   ///< bytes; the greatest common divisor of the sizes
  int64_t bound = 0;  ///< the largest sum of live sizes, in units
  std::vector<Component> components;
  std::vector<int64_t> offsets;  ///< in units; final for buffers that are in no component
};

/// Splits where no buffer crosses, puts buffers that live in all sections of a part at its bottom
/// (any packing can be rearranged so), and does both again with what is left. `sizes` replace those
/// of `lifetimes`; buffers of size 0 lie at 0.
Reduced reduce(std::span<const Lifetime> lifetimes, std::span<const int64_t> sizes);

}  // namespace brim::memory::packing
