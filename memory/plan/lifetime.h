// When a buffer lives and how large it is: all that packing knows of it.
#pragma once

#include <cstdint>

namespace brim::memory {

/// Lives in [lower, upper), half-open: one that ends at 3 and one that begins at 3 may share bytes.
struct Lifetime {
  int64_t lower = 0, upper = 0;
  int64_t size = 0;  ///< bytes
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

}  // namespace brim::memory
