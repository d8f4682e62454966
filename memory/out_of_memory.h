// The error of a device that has no room, with the numbers one needs to act on it. It carries
// numbers and strings, never tensors: holding it keeps no device byte alive. Thrown by the account,
// and by `raise_library_shortage` for a library that gets no memory; a `TrainStep` undoes itself
// before it passes it on. Not for containers of the host, which throw `std::bad_alloc`.
#pragma once

#include <string>

#include "brim/base/device.h"
#include "brim/base/error.h"
#include "brim/memory/category.h"

namespace brim::memory {

/// The state of an account when a request was refused. All in bytes.
struct Shortage {
  Device device;
  int64_t requested = 0;                ///< 0: a library failed to get memory of its own
  Category category = Category::other;  ///< what the request was for
  int64_t total = 0;                    ///< the device's capacity or cap
  int64_t live = 0;
  int64_t cached = 0;  ///< held by the planner, in pieces that did not serve
  int64_t fragmented = 0;
  int64_t free = 0;  ///< total - reserved
  BytesByCategory by_category{};
  bool injected = false;  ///< refused by `fail_nth`, not for want of room
};

class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const Shortage& shortage);
  const Shortage& shortage() const noexcept { return shortage_; }

 private:
  Shortage shortage_;
};

}  // namespace brim::memory
