// Some whole numbers that follow each other: indices along an axis, a share of some work.
#pragma once

#include <cstdint>

namespace brim {

/// [begin, end).
struct Range {
  int64_t begin, end;
  constexpr int64_t size() const { return end - begin; }
};

}  // namespace brim
