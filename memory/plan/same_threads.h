// Which thread had the bytes of a buffer before. Kernels divide a buffer among threads into equal
// stretches, each in its own thread's cache when the next buffer comes to lie there. If that one is
// divided at other places, threads take lines out of each other's caches, which on processors whose
// cores share no cache takes several times as long as from memory (docs/packing.md). Packings of
// one height have places to choose from, so this chooses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "brim/memory/plan/lifetime.h"

namespace brim::memory {

/// Bytes that a thread gets from another as buffers come to lie where others lay, if each thread
/// has an equal stretch of each buffer. Only buffers that are worth dividing count (64 KiB), and of
/// what lay there before only what may still be in a cache: with less than 64 MiB of buffers begun
/// since. Offsets are those of a packing.
int64_t bytes_between_threads(std::span<const Lifetime> lifetimes, std::span<const int64_t> offsets,
                              int threads);

/// Moves buffers of a packing to where the same threads had the bytes, as far as that is free for
/// as long as they live: a packing of no more height, with no more bytes between threads. `height`
/// and the offsets are multiples of `alignment`, a power of two, to which sizes are rounded up. The
/// same question always has the same answer; it takes milliseconds, and nothing is moved where so
/// many buffers live that it would take seconds.
std::vector<int64_t> with_same_threads(std::span<const Lifetime> lifetimes,
                                       std::span<const int64_t> offsets, int64_t height,
                                       int64_t alignment, int threads);

}  // namespace brim::memory
