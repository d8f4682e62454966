// Replaces malloc and its like in a test program, to see what goes around the account. Not for
// programs that are built with a sanitizer: it replaces them too. Run the work before watching it:
// what is made once (oneDNN's primitives, small segments of the caching planner) comes from malloc
// as well. Memory from mmap is not seen. One watch at a time: its state is the program's.
#pragma once

#include <cstddef>

namespace brim::testing {

/// Bookkeeping of a call (handles, argument lists) is below this; tensors and packed operands are
/// far above.
inline constexpr size_t kSmallAllocation = 4096;

/// Watches from its making to its end, every thread.
class MallocWatch {
 public:
  MallocWatch();
  ~MallocWatch();
  MallocWatch(const MallocWatch&) = delete;
  MallocWatch& operator=(const MallocWatch&) = delete;

  /// Bytes of the largest request above kSmallAllocation so far; 0 for none.
  size_t largest() const;
  /// Who made it, to standard error.
  void print_caller() const;
};

}  // namespace brim::testing
