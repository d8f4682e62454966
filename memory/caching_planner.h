// Keeps released blocks for the next request: best fit over size classes, blocks split when the
// rest is worth keeping, neighbours joined again on release. The default planner.
//
// Requests are rounded up to a size class (eight per power of two), so that slightly different
// requests share blocks; the rounding is what `fragmented` counts. Source bytes come in segments:
// 2 MiB for small requests, the request's own class for large ones. Blocks are kept by stream. When
// the source refuses, a request takes, in this order: a block of another stream, after a wait for
// that stream's work; what the source has once every wholly free segment is given back; a block
// that was kept for requests of the other kind, small or large. The same requests are placed in the
// same way wherever the source puts its segments.
//
// Of a source whose pages are apart (a GPU's virtual memory) free pages go back also from between
// blocks that are held, and are mapped again where a request needs them: what is refused then is
// more than the bytes of all pages that nobody holds a part of, wherever they lie. Other sources
// strand them (docs/virtual_memory.md).
//
// Once the source has refused, every step and evaluation begins without wholly free segments, so
// that what was kept of another one is no part of how it goes: steps with the same requests reserve
// the same. That costs asking the source again, where there is hardly room.
#pragma once

#include <memory>
#include <vector>

#include "brim/memory/free_blocks.h"
#include "brim/memory/node_pool.h"
#include "brim/memory/planner.h"

namespace brim::memory {

struct CachingOptions {
  /// Blocks above this many bytes are never split (PyTorch's max_split_size_mb). They serve only
  /// requests that are above it too and fill 7/8 of the block, so that a large block is there when
  /// a large request comes again. At least 2 MiB.
  int64_t max_split = Source::kUnlimited;
};

class CachingPlanner final : public Planner {
 public:
  /// Throws `ValueError` for options out of their range.
  explicit CachingPlanner(Source& source, const CachingOptions& options = {});
  ~CachingPlanner() override;

  std::string_view name() const override { return "caching"; }
  Placement place(const Request& request) override;
  void release(const Placement& placement) noexcept override;
  int64_t cached() const override { return cached_; }
  int64_t fragmented() const override { return fragmented_; }
  /// Gives back every wholly free segment, after the work of the streams that used it.
  void empty_cache() noexcept override;
  void begin_step() override { empty_if_refused(); }
  void begin_section(const Section& section) override {
    if (section.kind == SectionKind::evaluation) empty_if_refused();
  }
  PlannerStats stats() const override;

  /// The size class of a request: the least one that holds `bytes`.
  static int64_t size_class(int64_t bytes) { return FreeBlocks::size_class(bytes); }

 private:
  using Block = CachedBlock;
  using Segment = CachedSegment;

  FreeBlocks& home(int stream, bool small);
  Block* take(FreeBlocks& from, int64_t bytes);
  Block* take_after_refusal(FreeBlocks& home, int64_t bytes, int64_t requested);
  Block* new_segment(FreeBlocks& home, int64_t bytes);
  void* take_from_source(int64_t bytes);
  bool adopt(FreeBlocks& home);
  void split(Block* block, int64_t bytes);
  Block* join_neighbours(Block* block) noexcept;
  Block* join(Block* block, Block* next) noexcept;
  bool is_free(const Segment& segment) const;
  void give_back(Segment* segment) noexcept;
  void unlink(Segment* segment) noexcept;
  // memory/caching_pages.cc
  void give_back_free_pages(Segment* segment) noexcept;
  void shed_rounding() noexcept;
  void shed_rounding(Block* block) noexcept;
  void cut_out(Block* block, char* begin, char* end) noexcept;
  void begin_segment(Block* first, Segment* after, char* address, int64_t bytes) noexcept;
  void empty_if_refused() noexcept {
    if (refused_) empty_cache();
  }

  const CachingOptions options_;
  std::vector<std::unique_ptr<FreeBlocks>> homes_;  // by stream and kind; few, so searched in order
  NodePool<Block> blocks_;
  NodePool<Segment> segments_;
  Segment* first_ = nullptr;  // the segments held, oldest first
  Segment* last_ = nullptr;
  int64_t cached_ = 0, fragmented_ = 0, segments_made_ = 0;
  bool refused_ = false;  // the source has given less than it was asked for
  PlannerStats stats_;
};

/// Makes caching planners with these options; `planner_named("caching")` has the defaults.
MakePlanner caching_planner(const CachingOptions& options);

}  // namespace brim::memory
