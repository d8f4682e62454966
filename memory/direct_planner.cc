#include "brim/memory/direct_planner.h"

namespace brim::memory {

Placement DirectPlanner::place(const Request& request) {
  void* address = source().allocate(request.bytes);
  // The token remembers the size: a source wants it back.
  return {address, reinterpret_cast<void*>(request.bytes)};
}

void DirectPlanner::release(const Placement& placement) noexcept {
  source().deallocate(placement.address, reinterpret_cast<intptr_t>(placement.token));
}

}  // namespace brim::memory
