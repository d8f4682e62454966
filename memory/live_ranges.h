// The bytes that are held of an account, by address: finds a planner that hands out bytes twice,
// and a release of what is not held. One tree node a buffer, so it is for builds and tests that
// look for faults (`Account::set_checking`), not for training.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "brim/memory/live_buffers.h"

namespace brim::memory {

class LiveRanges {
 public:
  /// Throws `InternalError` that names both buffers when `buffer` overlaps one that is there.
  void add(const LiveBuffer& buffer, std::string_view planner);
  /// Does nothing for a buffer that `add` refused.
  void remove(const LiveBuffer& buffer) noexcept;
  /// The buffers have other addresses, apart from each other.
  void rekey() noexcept;
  /// Is `buffer` held, and does it start at `address`? It may dangle.
  bool holds(const void* address, const LiveBuffer* buffer) const noexcept;

 private:
  std::map<uintptr_t, const LiveBuffer*> by_address_;
};

}  // namespace brim::memory
