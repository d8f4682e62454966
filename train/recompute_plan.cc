#include "brim/train/recompute_plan.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace brim {
namespace {

using memory::Fate;

constexpr int kAttempts = 8;  // at a plan that fits also when it is packed

// A value that no backward function reads is kept for those that are made from it, and where there
// are none, or it was written over and has no bytes, not at all.
std::vector<Fate> without_idle(const RecordedStep& step, std::vector<Fate> saving) {
  for (size_t i = 0; i < saving.size(); ++i)
    if (step.graph.values[i].may_drop && step.graph.values[i].bytes == 0) saving[i] = Fate::retain;
  std::vector<bool> is_wanted(saving.size());
  for (const auto& backward : step.graph.steps)
    for (int32_t value : backward.reads) is_wanted[static_cast<size_t>(value)] = true;
  for (size_t k = 0; k < step.graph.ops.size(); ++k) {
    const bool runs_again = std::ranges::any_of(step.values[k], [&](int32_t value) {
      return value >= 0 && saving[static_cast<size_t>(value)] != Fate::keep;
    });
    if (!runs_again) continue;
    for (int32_t value : step.graph.ops[k].reads) is_wanted[static_cast<size_t>(value)] = true;
  }
  for (size_t i = 0; i < saving.size(); ++i)
    if (step.graph.values[i].may_drop && !is_wanted[i]) saving[i] = Fate::retain;
  return saving;
}

class Choosing {
 public:
  Choosing(const TrainingSetup& setup, int64_t limit) : setup_(setup), limit_(limit) {}

  RecomputeChoice run() {
    RecomputeChoice kept = rehearsed({});
    if (kept.fits) return kept;
    step_ = record_step(setup_.rehearsal);
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
      choice.dropped =
          std::ranges::count_if(plan.saving, [](Fate saving) { return saving != Fate::keep; });
      choice.recompute =
          planned_recomputation(std::make_shared<autograd::Fates>(fates_of(step_, plan.saving)));
    }
    choice.plan = std::move(plan);
    setup.rehearsal.trainer.recompute = choice.recompute;
    choice.memory = predicted_memory(setup, limit_);
    choice.fits = choice.memory.peak_reserved <= limit_;
    return choice;
  }

  TrainingSetup setup_;
  int64_t limit_;
  RecordedStep step_;
};

}  // namespace

autograd::Fates fates_of(const RecordedStep& step, const std::vector<Fate>& given) {
  const std::vector<Fate> saving = without_idle(step, given);
  autograd::Fates fates;
  for (const std::vector<int32_t>& outputs : step.values) {
    std::vector<Fate>& of_call = fates.emplace_back();
    for (int32_t value : outputs)
      of_call.push_back(value < 0 ? Fate::keep : saving[static_cast<size_t>(value)]);
    if (std::ranges::count(of_call, Fate::keep) == std::ssize(of_call)) of_call.clear();
  }
  return fates;
}

RecomputeChoice choose_recomputation(const TrainingSetup& setup, int64_t limit) {
  auto start = std::chrono::steady_clock::now();
  RecomputeChoice choice = Choosing(setup, limit).run();
  choice.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return choice;
}

}  // namespace brim
