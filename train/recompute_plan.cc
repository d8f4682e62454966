#include "brim/train/recompute_plan.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace brim {
namespace {

using memory::Fate;

constexpr int kAttempts = 8;  // at a plan that fits also when it is packed

bool is_made_again(Fate fate) { return fate == Fate::retain || fate == Fate::remake; }

class Choosing {
 public:
  Choosing(const TrainingSetup& setup, int64_t limit, const RecomputeMeans& means)
      : setup_(setup), limit_(limit), means_(means) {
    setup_.rehearsal.trainer.offload.enabled &= means.offload;
  }

  RecomputeChoice run() {
    RecomputeChoice kept = rehearsed({});
    if (kept.fits) return kept;
    step_ = record_step(setup_.rehearsal);
    if (!means_.drop)
      for (auto& value : step_.graph.values) value.may_drop = false;
    memory::RecomputePlanner planner(step_.graph);
    if (auto found = planned_within(planner, limit_)) return std::move(*found);
    return least(planner, std::move(kept));
  }

 private:
  // For less and less, until what is packed is within `limit`; nothing where that fails.
  std::optional<RecomputeChoice> planned_within(memory::RecomputePlanner& planner, int64_t limit) {
    int64_t target = limit;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      memory::RecomputePlan plan = planner.plan(target);
      if (!plan.fits) break;
      RecomputeChoice choice = rehearsed(std::move(plan));
      const int64_t over = choice.memory.peak_reserved - limit;
      if (over <= 0) return choice;
      target = std::max<int64_t>(target - over, 0);
    }
    return {};
  }

  // Whatever the limit is. The graph's least need not be the least when it is packed.
  RecomputeChoice least(memory::RecomputePlanner& planner, RecomputeChoice found) {
    RecomputeChoice other = rehearsed(planner.least());
    if (other.memory.peak_reserved < found.memory.peak_reserved) found = std::move(other);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      auto less = planned_within(planner, found.memory.peak_reserved - 1);
      if (!less) break;
      found = std::move(*less);
    }
    return found;
  }

  RecomputeChoice rehearsed(memory::RecomputePlan plan) {
    TrainingSetup setup = setup_;
    RecomputeChoice choice{.recompute = setup.rehearsal.trainer.recompute};
    if (!plan.saving.empty()) {
      choice.dropped = std::ranges::count_if(plan.saving, is_made_again);
      choice.offloaded = plan.offloaded;
      choice.recompute = planned_recomputation(
          std::make_shared<autograd::Fates>(fates_of(step_, plan.saving)), plan.wait_seconds);
    }
    choice.plan = std::move(plan);
    setup.rehearsal.trainer.recompute = choice.recompute;
    choice.memory = predicted_memory(setup, limit_);
    choice.fits = choice.memory.peak_reserved <= limit_;
    return choice;
  }

  TrainingSetup setup_;
  int64_t limit_;
  RecomputeMeans means_;
  RecordedStep step_;
};

}  // namespace

RecomputeChoice choose_recomputation(const TrainingSetup& setup, int64_t limit,
                                     const RecomputeMeans& means) {
  auto start = std::chrono::steady_clock::now();
  RecomputeChoice choice = Choosing(setup, limit, means).run();
  choice.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return choice;
}

}  // namespace brim
