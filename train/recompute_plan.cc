#include "brim/train/recompute_plan.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "brim/train/made_again.h"
#include "brim/train/rehearsed_plan.h"

namespace brim {
namespace {

using autograd::is_made_again;

constexpr int kAttempts = 6;  // at a plan that fits also when it is packed

constexpr int kMostLess = 32;  // plans that hold less than the one before

// Bytes. Packed heights rise and fall with what the graph is planned for: by a few buffers' padding
// less may be found for one limit and not for the next.
constexpr int64_t kLeastIsKnownTo = 4096;

// Targets for the planner, whose answers leave some room below the limit, or too little.
class Bracket {
 public:
  explicit Bracket(int64_t limit) : next_(limit), least_apart_(limit / kApart) {}

  int64_t next() const { return next_; }
  bool are_apart() const { return fails_at_ - fits_at_ > least_apart_; }
  void tried(int64_t room) {
    (room >= 0 ? fits_at_ : fails_at_) = next_;
    if (room >= 0 && room <= least_apart_) fails_at_ = next_;
    next_ = std::max<int64_t>(next_ + room, 0);
    if (next_ <= fits_at_ || next_ >= fails_at_) next_ = std::midpoint(fits_at_, fails_at_);
  }

 private:
  static constexpr int64_t kApart = 64;

  int64_t next_, least_apart_;
  int64_t fits_at_ = 0, fails_at_ = std::numeric_limits<int64_t>::max();
};

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
  // The quickest of those whose packed bytes are within `limit`; nothing where none is. The graph
  // may have more bytes than a run or fewer, so it is asked for as many as bring the run near it.
  std::optional<RecomputeChoice> planned_within(memory::RecomputePlanner& planner, int64_t limit) {
    std::optional<RecomputeChoice> best;
    Bracket targets(limit);
    for (int attempt = 0; attempt < kAttempts && targets.are_apart(); ++attempt) {
      memory::RecomputePlan plan = planner.plan(targets.next());
      if (!plan.fits) break;
      RecomputeChoice choice = rehearsed(std::move(plan));
      const int64_t room = limit - choice.memory.peak_reserved;
      targets.tried(room);
      if (room >= 0 && (!best || choice.plan.seconds < best->plan.seconds))
        best = std::move(choice);
    }
    if (best) best->plan.bound_seconds = bound_within(planner, limit, *best);
    return best;
  }

  // Of all plans whose runs are within the limit, and not only within what this one was asked for:
  // the graph of another one may have as many bytes more than its run.
  static double bound_within(const memory::RecomputePlanner& planner, int64_t limit,
                             const RecomputeChoice& choice) {
    const int64_t more = choice.plan.peak - choice.memory.peak_live;
    return planner.bound_seconds(limit + std::max<int64_t>(more, 0));
  }

  // Whatever the limit is. The graph's least need not be the least when it is packed.
  RecomputeChoice least(memory::RecomputePlanner& planner, RecomputeChoice found) {
    const auto consider = [&](RecomputeChoice other) {
      if (rank(other) < rank(found)) found = std::move(other);
    };
    consider(rehearsed(planner.least_at_any_time()));
    // Where live bytes are within the limit, the quicker plan for them may be packed within it too.
    if (!means_.search_least && found.memory.peak_live > limit_) return found;
    consider(rehearsed(planner.least()));
    if (!means_.search_least) return found;
    for (int i = 0; i < kMostLess; ++i) {
      auto less = planned_within(
          planner, std::max<int64_t>(found.memory.peak_reserved - kLeastIsKnownTo, 0));
      if (!less) break;
      found = std::move(*less);
    }
    return found;
  }

  // What fits comes first, and of that what is quicker; else what holds less.
  static std::tuple<bool, int64_t, double> rank(const RecomputeChoice& choice) {
    return {!choice.fits, choice.fits ? 0 : choice.memory.peak_reserved, choice.plan.seconds};
  }

  RecomputeChoice rehearsed(memory::RecomputePlan plan) {
    TrainingSetup setup = setup_;
    RecomputeChoice choice{.recompute = setup.rehearsal.trainer.recompute};
    if (!plan.fates.empty()) {
      const std::vector<bool> saved = saved_values(step_);
      for (size_t i = 0; i < saved.size(); ++i)
        choice.dropped += saved[i] && is_made_again(plan.fates[i]);
      choice.offloaded = plan.offloaded;
      choice.recompute = planned_recomputation(
          std::make_shared<autograd::Fates>(fates_of(step_, plan.fates)), plan.wait_seconds);
    }
    choice.plan = std::move(plan);
    setup.rehearsal.trainer.recompute = choice.recompute;
    const RehearsedPlan packed = plan_under(
        setup.planner, [&](const auto& state_is_held) { rehearse(setup.rehearsal, state_is_held); },
        {.capacity = limit_});
    choice.memory = packed.predicted;
    choice.arena = packed.plan;
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
