#include "brim/train/recompute_plan.h"

#include <algorithm>
#include <chrono>

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
    RecomputeChoice choice = rehearsed({});
    if (choice.fits) return choice;
    step_ = record_step(setup_.rehearsal);
    if (!means_.drop)
      for (auto& value : step_.graph.values) value.may_drop = false;
    memory::RecomputePlanner planner(step_.graph);
    auto consider = [&](memory::RecomputePlan plan) {
      RecomputeChoice other = rehearsed(std::move(plan));
      const int64_t over = other.memory.peak_reserved - limit_;
      if (other.fits || other.memory.peak_reserved < choice.memory.peak_reserved)
        choice = std::move(other);
      return over;
    };
    int64_t target = limit_;
    for (int attempt = 0; attempt < kAttempts && !choice.fits; ++attempt) {
      memory::RecomputePlan plan = planner.plan(target);
      if (!plan.fits) break;
      target = std::max<int64_t>(target - consider(std::move(plan)), 0);
    }
    if (!choice.fits) consider(planner.least());
    return choice;
  }

 private:
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
