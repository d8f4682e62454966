// How PyTorch's CUDA caching allocator would lay out a sequence of requests on one stream, with its
// default settings and a device without limit: what it would reserve. A simulation after its
// documented policy (pytorch.org, "CUDA semantics", and c10/cuda/CUDACachingAllocator.cpp): sizes
// only, no addresses, no time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <set>
#include <tuple>
#include <unordered_map>

namespace brim::bench {

class TorchPolicy {
 public:
  void allocate(size_t slot, int64_t bytes) {
    int64_t size = round_up(bytes, kMinBlock);
    bool small = size <= kSmallSize;
    Block* block = best_fit(size, small);
    if (block == nullptr) block = new_segment(size, small);
    int64_t rest = block->size - size;
    if (small ? rest >= kMinBlock : rest > kSmallSize) split(block, size);
    block->free = false;
    live_[slot] = block;
  }

  void release(size_t slot) {
    auto found = live_.find(slot);
    Block* block = found->second;
    live_.erase(found);
    block->free = true;
    if (Block* next = block->next; next != nullptr && next->free) {
      free_.erase(next);
      join(block, next);
    }
    if (block->previous != nullptr && block->previous->free) {
      block = block->previous;
      free_.erase(block);
      join(block, block->next);
    }
    free_.insert(block);
  }

  int64_t reserved() const { return reserved_; }

 private:
  static constexpr int64_t kMinBlock = 512, kMiB = 1 << 20;
  static constexpr int64_t kSmallSize = kMiB;          // up to here requests share small segments
  static constexpr int64_t kSmallSegment = 2 * kMiB;   // of this size
  static constexpr int64_t kMinLarge = 10 * kMiB;      // below, requests share segments
  static constexpr int64_t kLargeSegment = 20 * kMiB;  // of this size
  static constexpr int64_t kRoundLarge = 2 * kMiB;     // from there on they have their own

  struct Block {
    int64_t size, address;
    bool small, free;
    Block *previous = nullptr, *next = nullptr;
    std::list<Block>::iterator self{};
  };
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return std::tuple(a->small, a->size, a->address) < std::tuple(b->small, b->size, b->address);
    }
  };

  static int64_t round_up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

  Block* add(const Block& block) {
    blocks_.push_back(block);
    blocks_.back().self = std::prev(blocks_.end());
    return &blocks_.back();
  }

  Block* best_fit(int64_t size, bool small) {
    Block wanted{.size = size, .address = 0, .small = small, .free = true};
    auto found = free_.lower_bound(&wanted);
    if (found == free_.end() || (*found)->small != small) return nullptr;
    Block* block = *found;
    free_.erase(found);
    return block;
  }

  Block* new_segment(int64_t size, bool small) {
    int64_t bytes = small              ? kSmallSegment
                    : size < kMinLarge ? kLargeSegment
                                       : round_up(size, kRoundLarge);
    reserved_ += bytes;
    next_address_ += 2 * bytes;  // segments are never neighbours
    return add({.size = bytes, .address = next_address_, .small = small, .free = true});
  }

  void split(Block* block, int64_t size) {
    Block* rest = add({.size = block->size - size,
                       .address = block->address + size,
                       .small = block->small,
                       .free = true,
                       .previous = block,
                       .next = block->next});
    if (rest->next != nullptr) rest->next->previous = rest;
    block->next = rest;
    block->size = size;
    free_.insert(rest);
  }

  // Neither is in `free_`.
  void join(Block* low, Block* high) {
    low->size += high->size;
    low->next = high->next;
    if (low->next != nullptr) low->next->previous = low;
    blocks_.erase(high->self);
  }

  std::list<Block> blocks_;
  std::set<Block*, BySize> free_;
  std::unordered_map<size_t, Block*> live_;
  int64_t reserved_ = 0, next_address_ = 0;
};

}  // namespace brim::bench
