// All that is held of an account, on its way from one planner to another: the values wait in the
// host's memory, outside of every account, while the bytes are back at the source. Making one takes
// everything of the program's heap that is needed on the way. For `Account::replan`, which says
// what is promised, and not for anything else.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "brim/memory/direct_planner.h"
#include "brim/memory/live_buffers.h"
#include "brim/memory/planner.h"

namespace brim::memory {

class Relocation {
 public:
  /// Copies the values out, after the work of the streams that asked for the bytes. Throws
  /// `std::bad_alloc`, and what the source throws as it copies.
  Relocation(Source& source, LiveBuffers& buffers);

  /// Releases what is placed with the planner: no buffer has an address then.
  void leave(Planner& planner) noexcept;
  /// Places every buffer, the oldest first. Returns the one that the planner refused, null for
  /// none. Throws what the planner throws, and `InternalError` where it placed one over another or
  /// off its boundary. Where it fails, some buffers are placed.
  const LiveBuffer* enter(Planner& planner);
  void copy_back();

  /// A planner that places as many buffers without asking the heap. Once.
  std::unique_ptr<DirectPlanner> take_last_resort() { return std::move(last_resort_); }

 private:
  void check_places(const Planner& planner);

  Source& source_;
  std::vector<LiveBuffer*> buffers_;           // the oldest first
  std::vector<const LiveBuffer*> by_address_;  // room to sort them
  std::unique_ptr<std::byte[]> values_;        // one after the other
  std::unique_ptr<DirectPlanner> last_resort_;
};

}  // namespace brim::memory
