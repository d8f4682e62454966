// The independent check of a packing: no two buffers that live at the same time share a byte. It
// shares no code with the packer, and every result of `pack` goes through it. Not a bound: whether
// a lower packing exists is for the packer to say.
#pragma once

#include <cstdint>
#include <span>

#include "brim/memory/plan/lifetime.h"

namespace brim::memory {

/// Throws `InternalError` that names two buffers by their positions where they overlap in time and
/// in bytes, or one buffer whose offset is negative, no multiple of `alignment`, or ends above
/// `height`. A sweep over time with an ordered set of live bytes: O(n log n). Buffers of no bytes
/// overlap nothing.
void check_packing(std::span<const Lifetime> lifetimes, std::span<const int64_t> offsets,
                   int64_t height, int64_t alignment = 1);

}  // namespace brim::memory
