// Recomputation without a plan, for graphs that change from step to step: everything that is saved
// is held while there is room; when a request would go beyond the budget, what only the tape holds
// is dropped, least h first, where
//
//   h = cost of making it again, with what is missing around it / (bytes * ops since its last use)
//
// (Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021; eviction_graph.h says how the
// cost is kept). Values dropped too early are made again, and may push out others. Time is counted
// in ops, so that a run is deterministic, and a rehearsal of the same graph drops the same values.
// Where the graph stays the same a plan costs less (train/recompute_plan.h).
//
//   DynamicEviction eviction({.budget = 1 << 30});
//   memory::ReclaimerScope reclaiming(*memory::account(device), eviction.reclaimer());
//   Tensor loss = [&] { SavePolicyScope saving(&eviction); return model(x); }();
//   backward(loss);  // drops, and makes again
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "brim/autograd/op.h"
#include "brim/autograd/save_policy.h"
#include "brim/memory/reclaimer.h"

namespace brim::autograd {

class EvictionGraph;
class Tournament;

struct DynamicEvictionOptions {
  /// Live bytes that the account may reach, all of them; 0: what its cap and its planner have room
  /// for. A request that cannot be met is `memory::OutOfMemory`.
  int64_t budget = 0;
};

struct EvictionCounts {
  int64_t dropped = 0;        ///< units: results with their views
  int64_t dropped_bytes = 0;  ///< also of those that were dropped again
  int64_t rerun = 0;          ///< calls
  int64_t looked_at = 0;      ///< candidates that were the next to go, dropped or not
  int64_t comparisons = 0;    ///< of two candidates
};

/// For one forward pass and its backward, and on one thread: make a new one for the next. It sees
/// ops from its making to its end, as observers do. What it dropped can be made again after its
/// end; then it drops nothing any more.
///
/// Choosing costs nothing before the first request that finds no room. From then on each use of a
/// value costs O(log n) comparisons for n values, and so does each that is dropped, but for the
/// order of candidates that time overturned since, and those that programs hold at that moment,
/// which are looked at for each request.
class DynamicEviction final : public SavePolicy, public memory::Reclaimer, private OpObserver {
 public:
  /// Throws `ValueError` for a budget below 0.
  explicit DynamicEviction(const DynamicEvictionOptions& options = {});
  ~DynamicEviction() override;

  Decision decide(const RecordedCall& call) override;
  void recorded(const std::shared_ptr<Node>& node, const Tensors& outputs) override;
  memory::Reclaimer* reclaimer() override { return this; }
  int64_t limit() const override;
  bool reclaim(const memory::Account& account, int64_t bytes) override;
  EvictionCounts counts() const;

 private:
  void ran(const OpEvent& event) override;
  void ran_again(const Node& node);
  void use(const Value* value);
  void enter(int unit);
  void begin_choosing();
  void look_again_at_held(const memory::Account& account);
  /// The next to drop; `EvictionGraph::kNone` for none.
  int choose(const memory::Account& account);
  double bytes_for_cost(int unit);

  DynamicEvictionOptions options_;
  std::unique_ptr<EvictionGraph> graph_;
  std::unique_ptr<Tournament> candidates_;
  bool chooses_ = false;           // was there ever a request without room?
  int64_t ops_ = 0;                // so far
  std::vector<int64_t> last_use_;  // of each unit
  std::vector<double> speeds_;     // of each candidate, as it was entered
  std::vector<int> held_;          // by others than the tape, when they were looked at
  EvictionCounts counts_;
};

}  // namespace brim::autograd
