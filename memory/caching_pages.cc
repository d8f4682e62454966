// The caching planner's part for sources whose pages are apart: free pages between blocks that are
// held go back, and what was one segment becomes two.
#include <new>

#include "brim/base/bytes.h"
#include "brim/memory/caching_planner.h"

namespace brim::memory {
namespace {

char* next_page(char* address, const char* segment, int64_t page) {
  return address + (round_up(address - segment, page) - (address - segment));
}

}  // namespace

void CachingPlanner::give_back_free_pages(Segment* segment) noexcept {
  const int64_t page = source().pages().bytes;
  char* const start = segment->address;  // all addresses are from here: on the boundary of a page
  for (Block *block = segment->first, *next; block != nullptr; block = next) {
    next = block->next;
    if (block->requested > 0) continue;
    char* begin = next_page(block->address, start, page);
    char* end = next_page(block->address + block->bytes - (page - 1), start, page);
    if (begin >= end) continue;
    try {
      blocks_.reserve(1);
      segments_.reserve(1);
    } catch (const std::bad_alloc&) {
      return;  // they stay cached
    }
    cut_out(block, begin, end);
  }
}

void CachingPlanner::shed_rounding() noexcept {
  for (Segment* segment = first_; segment != nullptr; segment = segment->next)
    for (Block* block = segment->first; block != nullptr; block = block->next) shed_rounding(block);
}

/// What a held block has beyond its request becomes free, or part of the free one behind it.
void CachingPlanner::shed_rounding(Block* block) noexcept {
  const int64_t rest = block->bytes - block->requested;
  if (block->requested == 0 || rest == 0) return;
  try {
    blocks_.reserve(1);
  } catch (const std::bad_alloc&) {
    return;
  }
  block->bytes = block->requested;
  Block* tail = blocks_.get({.address = block->address + block->bytes,
                             .bytes = rest,
                             .segment = block->segment,
                             .home = block->home,
                             .previous = block,
                             .next = block->next});
  if (tail->next != nullptr) tail->next->previous = tail;
  block->next = tail;
  cached_ += rest;
  fragmented_ -= rest;
  tail = join_neighbours(tail);
  tail->home->insert(tail);
}

/// Of a free block: the pages from `begin` to `end`. What is before them stays the segment, what is
/// behind them becomes one.
void CachingPlanner::cut_out(Block* block, char* begin, char* end) noexcept {
  Segment* segment = block->segment;
  Block *const previous = block->previous, *behind = block->next;
  char *const block_end = block->address + block->bytes, *const segment_end =
                                                             segment->address + segment->bytes;
  source().finish(block->home->stream);
  block->home->remove(block);
  if (end < block_end) {
    Block* rest = blocks_.get({.address = end, .bytes = block_end - end, .home = block->home});
    rest->next = behind;
    if (behind != nullptr) behind->previous = rest;
    behind = rest;
  }
  if (behind != nullptr) begin_segment(behind, segment, end, segment_end - end);
  if (end < block_end) behind->home->insert(behind);
  segment->bytes = begin - segment->address;
  if (block->address < begin) {
    block->bytes = begin - block->address;
    block->next = nullptr;
    block->home->insert(block);
  } else {
    if (previous != nullptr) previous->next = nullptr;
    blocks_.put(block);
  }
  if (segment->bytes == 0) unlink(segment);
  cached_ -= end - begin;
  source().deallocate_pages(begin, end - begin);
}

/// Of the block and all that follow it.
void CachingPlanner::begin_segment(Block* first, Segment* after, char* address,
                                   int64_t bytes) noexcept {
  Segment* segment = segments_.get({.address = address,
                                    .bytes = bytes,
                                    .number = segments_made_++,
                                    .first = first,
                                    .previous = after,
                                    .next = after->next});
  (after->next == nullptr ? last_ : after->next->previous) = segment;
  after->next = segment;
  first->previous = nullptr;
  for (Block* block = first; block != nullptr; block = block->next) block->segment = segment;
  ++stats_.segments;
}

}  // namespace brim::memory
