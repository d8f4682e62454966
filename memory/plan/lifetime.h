// When a buffer lives and how large it is: all that packing knows of it, and what is live when
// follows from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace brim::memory {

/// Lives in [lower, upper), half-open: one that ends at 3 and one that begins at 3 may share bytes.
struct Lifetime {
  int64_t lower = 0, upper = 0;
  int64_t size = 0;  ///< bytes
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

/// Element t: the bytes that live at time t, for times in [0, end). No lifetime reaches beyond
/// that.
std::vector<int64_t> live_bytes(std::span<const Lifetime> lifetimes, int64_t end);
/// The largest of them; 0 where there are none.
int64_t most_live(std::span<const Lifetime> lifetimes, int64_t end);

}  // namespace brim::memory
