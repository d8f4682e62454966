// Keeps released blocks for the next request: best fit over size classes, blocks split when the
// rest is worth keeping, neighbours joined again on release. The default planner.
//
// Requests are rounded up to a size class (eight per power of two), so that slightly different
// requests share blocks; the rounding is what `fragmented` counts. Source bytes come in segments:
// 2 MiB for small requests, the request's own class for large ones. When the source refuses,
// every wholly free segment is given back and the source is asked once more.
#pragma once

#include <memory>
#include <set>

#include "brim/memory/planner.h"

namespace brim::memory {

class CachingPlanner final : public Planner {
 public:
  using Planner::Planner;
  ~CachingPlanner() override;

  std::string_view name() const override { return "caching"; }
  Placement place(const Request& request) override;
  void release(const Placement& placement) noexcept override;
  int64_t cached() const override { return cached_; }
  int64_t fragmented() const override { return fragmented_; }
  void empty_cache() noexcept override;

  /// The size class of a request: the least one that holds `bytes`.
  static int64_t size_class(int64_t bytes);

 private:
  // A stretch of a segment. Blocks of one segment form a list in address order.
  struct Block {
    char* address;
    int64_t bytes;      // set aside
    int64_t requested;  // of those, asked for; 0 when free
    int stream;
    bool small;
    int64_t segment;  // counts from 0, in the order in which the source gave them
    Block* previous;
    Block* next;
  };
  // Among equals the oldest segment, then the lowest address in it: never an order that depends on
  // where the source puts segments, so the meta device chooses as the real one does.
  struct BestFit {
    bool operator()(const Block* a, const Block* b) const;
  };

  Block* find_free(int64_t bytes, int stream, bool small);
  Block* new_segment(int64_t bytes, int stream, bool small);
  void split(Block* block, int64_t bytes);
  Block* join(Block* block, Block* next);
  void give_back(Block* block) noexcept;

  std::set<Block*, BestFit> free_;
  int64_t cached_ = 0, fragmented_ = 0, segments_ = 0;
};

}  // namespace brim::memory
