#include "brim/memory/caching_planner.h"

#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/base/error.h"

namespace brim::memory {
namespace {

constexpr int64_t kSmall = int64_t{512} << 10;       // up to here a request is small
constexpr int64_t kSmallSegment = int64_t{2} << 20;  // small blocks are cut from these
constexpr int64_t kSmallRest = kAlignment;           // least rest worth splitting off
constexpr int64_t kLargeRest = int64_t{256} << 10;

}  // namespace

CachingPlanner::CachingPlanner(Source& source, const CachingOptions& options)
    : Planner(source), options_(options) {
  expect<ValueError>(options.max_split >= kSmallSegment, "caching planner",
                     "expected max_split of at least {} bytes, a small segment, got {}",
                     kSmallSegment, options.max_split);
}

CachingPlanner::~CachingPlanner() { empty_cache(); }

FreeBlocks& CachingPlanner::home(int stream, bool small) {
  for (auto& home : homes_)
    if (home->stream == stream && home->small == small) return *home;
  return *homes_.emplace_back(std::make_unique<FreeBlocks>(stream, small));
}

Placement CachingPlanner::place(const Request& request) {
  int64_t bytes = size_class(request.bytes);
  FreeBlocks& own = home(request.stream, bytes <= kSmall);
  blocks_.reserve(2);  // may fail, so before anything changes
  segments_.reserve(1);
  Block* block = take(own, bytes);
  ++(block != nullptr ? stats_.hits : stats_.misses);
  if (block == nullptr) block = new_segment(own, bytes);
  if (block == nullptr) block = take_after_refusal(own, bytes, request.bytes);
  if (block == nullptr) return {};
  cached_ -= block->bytes;
  split(block, bytes);
  block->requested = request.bytes;
  fragmented_ += block->bytes - request.bytes;
  return {block->address, block};
}

CachingPlanner::Block* CachingPlanner::take(FreeBlocks& from, int64_t bytes) {
  Block* block = from.best(bytes);
  if (block == nullptr) return nullptr;
  bool whole = block->bytes > options_.max_split;
  if (whole && (bytes <= options_.max_split || bytes < block->bytes - block->bytes / 8))
    return nullptr;  // and so would every larger one be
  from.remove(block);
  return block;
}

CachingPlanner::Block* CachingPlanner::take_after_refusal(FreeBlocks& own, int64_t bytes,
                                                          int64_t requested) {
  const bool apart = source().pages().apart;
  if (apart) shed_rounding();
  if (adopt(own))
    if (Block* block = take(own, bytes)) return block;
  FreeBlocks& other = home(own.stream, !own.small);
  if (apart) adopt(other);  // free neighbours are joined then, and no page lies in two of them
  empty_cache();
  if (Block* block = new_segment(own, bytes)) return block;
  if (apart)
    if (Block* block = new_segment(own, requested)) return block;
  adopt(other);
  return take(other, bytes);
}

void* CachingPlanner::take_from_source(int64_t bytes) {
  return source().pages().apart ? source().allocate_pages(bytes) : source().allocate(bytes);
}

CachingPlanner::Block* CachingPlanner::new_segment(FreeBlocks& own, int64_t bytes) {
  const int64_t page = source().pages().bytes, least = round_up(bytes, page);
  int64_t size = own.small ? round_up(kSmallSegment, page) : least;
  void* address = take_from_source(size);
  refused_ = refused_ || address == nullptr;
  if (address == nullptr && least < size) address = take_from_source(size = least);
  if (address == nullptr) return nullptr;
  Segment* segment = segments_.get({.address = static_cast<char*>(address),
                                    .bytes = size,
                                    .number = segments_made_++,
                                    .previous = last_});
  (last_ == nullptr ? first_ : last_->next) = segment;
  last_ = segment;
  segment->first =
      blocks_.get({.address = segment->address, .bytes = size, .segment = segment, .home = &own});
  cached_ += size;
  ++stats_.segments;
  return segment->first;
}

// Makes the free blocks of other streams those of `own`'s.
bool CachingPlanner::adopt(FreeBlocks& own) {
  bool any = false;
  for (auto& other : homes_)
    if (other.get() != &own && other->small == own.small && !other->empty()) {
      source().wait(own.stream, other->stream);
      any = true;
    }
  if (!any) return false;
  for (Segment* segment = first_; segment != nullptr; segment = segment->next)
    for (Block* block = segment->first; block != nullptr; block = block->next) {
      if (block->requested > 0 || block->home == &own || block->home->small != own.small) continue;
      block->home->remove(block);
      block->home = &own;
      block = join_neighbours(block);
      own.insert(block);
    }
  return true;
}

void CachingPlanner::split(Block* block, int64_t bytes) {
  int64_t rest = block->bytes - bytes;
  if (rest < (block->home->small ? kSmallRest : kLargeRest)) return;
  if (block->bytes > options_.max_split) return;
  Block* tail = blocks_.get({.address = block->address + bytes,
                             .bytes = rest,
                             .segment = block->segment,
                             .home = block->home,
                             .previous = block,
                             .next = block->next});
  if (tail->next != nullptr) tail->next->previous = tail;
  block->next = tail;
  block->bytes = bytes;
  tail->home->insert(tail);
  cached_ += rest;
  ++stats_.splits;
}

void CachingPlanner::release(const Placement& placement) noexcept {
  auto* block = static_cast<Block*>(placement.token);
  cached_ += block->bytes;
  fragmented_ -= block->bytes - block->requested;
  block->requested = 0;
  block = join_neighbours(block);
  block->home->insert(block);
}

// Of a block that is free and not yet in its home. Neighbours of other streams stay: their work may
// not be done.
CachingPlanner::Block* CachingPlanner::join_neighbours(Block* block) noexcept {
  auto joins = [&](const Block* other) {
    return other != nullptr && other->requested == 0 && other->home == block->home;
  };
  if (Block* next = block->next; joins(next)) {
    next->home->remove(next);
    block = join(block, next);
  }
  if (Block* previous = block->previous; joins(previous)) {
    previous->home->remove(previous);
    block = join(previous, block);
  }
  return block;
}

CachingPlanner::Block* CachingPlanner::join(Block* block, Block* next) noexcept {
  block->bytes += next->bytes;
  block->next = next->next;
  if (block->next != nullptr) block->next->previous = block;
  blocks_.put(next);
  return block;
}

bool CachingPlanner::is_free(const Segment& segment) const {
  for (Block* block = segment.first; block != nullptr; block = block->next)
    if (block->requested > 0) return false;
  return true;
}

void CachingPlanner::empty_cache() noexcept {
  for (Segment *segment = first_, *next; segment != nullptr; segment = next) {
    next = segment->next;
    if (is_free(*segment))
      give_back(segment);
    else if (source().pages().apart)
      give_back_free_pages(segment);
  }
}

void CachingPlanner::give_back(Segment* segment) noexcept {
  for (Block *block = segment->first, *next; block != nullptr; block = next) {
    next = block->next;
    source().finish(block->home->stream);
    block->home->remove(block);
    blocks_.put(block);
  }
  cached_ -= segment->bytes;
  if (source().pages().apart)
    source().deallocate_pages(segment->address, segment->bytes);
  else
    source().deallocate(segment->address, segment->bytes);
  unlink(segment);
}

void CachingPlanner::unlink(Segment* segment) noexcept {
  (segment->previous == nullptr ? first_ : segment->previous->next) = segment->next;
  (segment->next == nullptr ? last_ : segment->next->previous) = segment->previous;
  --stats_.segments;
  segments_.put(segment);
}

PlannerStats CachingPlanner::stats() const {
  PlannerStats stats = stats_;
  for (Segment* segment = first_; segment != nullptr; segment = segment->next)
    for (Block* block = segment->first; block != nullptr; block = block->next)
      if (block->requested == 0) stats.largest_free = std::max(stats.largest_free, block->bytes);
  return stats;
}

MakePlanner caching_planner(const CachingOptions& options) {
  return [options](Source& source) { return std::make_unique<CachingPlanner>(source, options); };
}

}  // namespace brim::memory
