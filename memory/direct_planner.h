// Every request goes to the source and back, after the work of its stream: the least bytes at any
// moment, and the slowest. For checks and for small programs; training wants the caching planner.
// Nothing is ever cached, and nothing fragmented but the rest of each request's last page, where
// the source has any: of a GPU's, one small request takes 2 MiB.
// `planner_named("direct")` makes it.
#pragma once

#include <memory>

#include "brim/memory/node_pool.h"
#include "brim/memory/planner.h"

namespace brim::memory {

class DirectPlanner final : public Planner {
 public:
  using Planner::Planner;
  std::string_view name() const override { return "direct"; }
  Placement place(const Request& request) override;
  void release(const Placement& placement) noexcept override;
  int64_t fragmented() const override { return fragmented_; }
  PlannerStats stats() const override;
  /// So many placements, beyond those that are held, need no heap of the program.
  void reserve(size_t placements) { pieces_.reserve(placements); }

 private:
  struct Piece {
    int64_t bytes = 0, requested = 0;
    int stream = 0;
    Piece* next = nullptr;
  };
  NodePool<Piece> pieces_;
  int64_t held_ = 0, requests_ = 0, fragmented_ = 0;
};

/// For an `Account`, which keeps it without asking the heap.
std::unique_ptr<Planner> direct_planner(Source& source);

}  // namespace brim::memory
