#include "brim/memory/caching_planner.h"

#include <bit>
#include <functional>
#include <tuple>

#include "brim/base/bytes.h"

namespace brim::memory {
namespace {

constexpr int64_t kSmall = int64_t{512} << 10;       // up to here a request is small
constexpr int64_t kSmallSegment = int64_t{2} << 20;  // small blocks are cut from these
constexpr int64_t kSmallRest = kAlignment;           // least rest worth splitting off
constexpr int64_t kLargeRest = int64_t{256} << 10;

}  // namespace

bool CachingPlanner::BestFit::operator()(const Block* a, const Block* b) const {
  return std::tuple(a->small, a->stream, a->bytes, a->segment, a->address) <
         std::tuple(b->small, b->stream, b->bytes, b->segment, b->address);
}

int64_t CachingPlanner::size_class(int64_t bytes) {
  // Eight classes per power of two lose at most 1/8 of a block, 1/16 on average.
  int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / 8;
  return round_up(bytes, std::max(step, kAlignment));
}

CachingPlanner::~CachingPlanner() { empty_cache(); }

Placement CachingPlanner::place(const Request& request) {
  int64_t bytes = size_class(request.bytes);
  bool small = bytes <= kSmall;
  Block* block = find_free(bytes, request.stream, small);
  if (block == nullptr) block = new_segment(bytes, request.stream, small);
  if (block == nullptr) return {};
  cached_ -= block->bytes;
  split(block, bytes);
  block->requested = request.bytes;
  fragmented_ += block->bytes - request.bytes;
  return {block->address, block};
}

CachingPlanner::Block* CachingPlanner::find_free(int64_t bytes, int stream, bool small) {
  Block wanted{nullptr, bytes, 0, stream, small, -1, nullptr, nullptr};
  auto best = free_.lower_bound(&wanted);
  if (best == free_.end() || (*best)->small != small || (*best)->stream != stream) return nullptr;
  Block* block = *best;
  free_.erase(best);
  return block;
}

CachingPlanner::Block* CachingPlanner::new_segment(int64_t bytes, int stream, bool small) {
  int64_t segment = small ? kSmallSegment : bytes;
  void* address = source().allocate(segment);
  if (address == nullptr) {
    empty_cache();
    address = source().allocate(segment);
  }
  if (address == nullptr && small) address = source().allocate(segment = bytes);
  if (address == nullptr) return nullptr;
  cached_ += segment;
  return new Block{
      static_cast<char*>(address), segment, 0, stream, small, segments_++, nullptr, nullptr};
}

void CachingPlanner::split(Block* block, int64_t bytes) {
  int64_t rest = block->bytes - bytes;
  if (rest < (block->small ? kSmallRest : kLargeRest)) return;
  auto* tail = new Block(*block);
  tail->address += bytes;
  tail->bytes = rest;
  tail->previous = block;
  if (tail->next != nullptr) tail->next->previous = tail;
  block->next = tail;
  block->bytes = bytes;
  free_.insert(tail);
  cached_ += rest;
}

void CachingPlanner::release(const Placement& placement) noexcept {
  auto* block = static_cast<Block*>(placement.token);
  cached_ += block->bytes;
  fragmented_ -= block->bytes - block->requested;
  block->requested = 0;
  if (Block* next = block->next; next != nullptr && next->requested == 0) {
    free_.erase(next);
    block = join(block, next);
  }
  if (Block* previous = block->previous; previous != nullptr && previous->requested == 0) {
    free_.erase(previous);
    block = join(previous, block);
  }
  free_.insert(block);
}

CachingPlanner::Block* CachingPlanner::join(Block* block, Block* next) {
  block->bytes += next->bytes;
  block->next = next->next;
  if (block->next != nullptr) block->next->previous = block;
  delete next;
  return block;
}

void CachingPlanner::empty_cache() noexcept {
  for (auto it = free_.begin(); it != free_.end();) {
    Block* block = *it;
    bool whole_segment = block->previous == nullptr && block->next == nullptr;
    it = whole_segment ? free_.erase(it) : std::next(it);
    if (whole_segment) give_back(block);
  }
}

void CachingPlanner::give_back(Block* block) noexcept {
  cached_ -= block->bytes;
  source().deallocate(block->address, block->bytes);
  delete block;
}

}  // namespace brim::memory
