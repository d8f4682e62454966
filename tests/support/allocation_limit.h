// Ends the program as soon as this thread's scope holds more heap bytes than it may, in one piece
// or in many: for fuzz targets, whose promise is that no input takes more memory than its size
// accounts for. Counts malloc and new alike, by the sanitizers' hooks: in a build without one it
// limits nothing. One at a time. To see single requests in an ordinary build use
// tests/malloc/malloc_watch.h.
#pragma once

#include <cstddef>

namespace brim::testing {

class AllocationLimit {
 public:
  /// At most `bytes` beyond what is held now.
  explicit AllocationLimit(size_t bytes);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
};

}  // namespace brim::testing
