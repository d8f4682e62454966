// The blocks that a caching planner keeps for one stream, found by best fit. A bin for each size
// class, a bit for each bin that is not empty, and in each bin a pairing heap (Fredman, Sedgewick,
// Sleator and Tarjan, 1986) whose least block is on top: insertion takes constant time, removal
// logarithmic, and nothing is allocated. Not for sizes in general: `best` wants a size class.
#pragma once

#include <array>
#include <cstdint>

#include "brim/memory/source.h"

namespace brim::memory {

class FreeBlocks;
struct CachedBlock;

/// A piece of the source. Its blocks form a list in address order.
struct CachedSegment {
  char* address = nullptr;
  int64_t bytes = 0;
  int64_t number = 0;  ///< counts from 0, in the order in which the source gave them
  CachedBlock* first = nullptr;
  CachedSegment* previous = nullptr;
  CachedSegment* next = nullptr;
};

struct CachedBlock {
  char* address = nullptr;
  int64_t bytes = 0;      ///< set aside
  int64_t requested = 0;  ///< of those, asked for; 0 when free
  CachedSegment* segment = nullptr;
  FreeBlocks* home = nullptr;  ///< where it goes when it is free
  CachedBlock* previous = nullptr;
  CachedBlock* next = nullptr;
  // Of the heap. `left` is the parent for a first child, else the sibling before.
  CachedBlock* child = nullptr;
  CachedBlock* left = nullptr;
  CachedBlock* right = nullptr;
};

class FreeBlocks {
 public:
  FreeBlocks(int stream, bool small) : stream(stream), small(small) {}
  FreeBlocks(const FreeBlocks&) = delete;
  FreeBlocks& operator=(const FreeBlocks&) = delete;

  /// The least size class that holds `bytes`: eight in each power of two, at least 64 apart.
  static int64_t size_class(int64_t bytes);

  void insert(CachedBlock* block) noexcept;
  void remove(CachedBlock* block) noexcept;
  /// The smallest block of at least `bytes`, a size class; null for none. Among equals that of the
  /// oldest segment, then the lowest address in it: never an order that depends on where the source
  /// puts segments, so that the meta device chooses as the real one does.
  CachedBlock* best(int64_t bytes) const noexcept;
  bool empty() const noexcept;

  const int stream;
  const bool small;

 private:
  static constexpr size_t kBins = 448, kWordBits = 64;

  std::array<CachedBlock*, kBins> bins_{};
  std::array<uint64_t, kBins / kWordBits> filled_{};  // which bins are not empty
};

}  // namespace brim::memory
