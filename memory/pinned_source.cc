#include "brim/memory/pinned_source.h"

#include "brim/base/cuda/memory.h"

namespace brim::memory {

void* PinnedSource::take(int64_t bytes) { return cuda::allocate_pinned(bytes); }

void PinnedSource::give_back(void* address, int64_t) noexcept { cuda::free_pinned(address); }

}  // namespace brim::memory
