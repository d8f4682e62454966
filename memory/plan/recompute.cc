#include "brim/memory/plan/recompute.h"

#include <algorithm>
#include <utility>

#include "brim/base/error.h"
#include "brim/memory/plan/recompute_bound.h"
#include "brim/memory/plan/recompute_search.h"

namespace brim::memory {

namespace {

using recompute::Found;

constexpr double kMostEffort = 1000;

}  // namespace

struct RecomputePlanner::Impl {
  Impl(const RecomputeGraph& graph, const RecomputeOptions& options)
      : flat(graph),
        search(flat, options.effort, RandomKey{options.seed}),
        bound_peak(recompute::bound_peak(flat)) {}

  RecomputePlan result(const Found& found, int64_t budget) {
    return {.fits = found.cost.peak <= budget,
            .fates = flat.to_graph(found.saving),
            .peak = flat.fixed + found.cost.peak,
            .extra_seconds = found.cost.seconds,
            .wait_seconds = found.cost.waits,
            .seconds = flat.seconds + found.cost.seconds,
            .offloaded = std::ranges::count(found.saving, Fate::offload),
            .host_peak = found.cost.host,
            .bound_seconds = recompute::bound_seconds(flat, budget),
            .least_peak = flat.fixed + search.least().cost.peak,
            .bound_peak = flat.fixed + bound_peak,
            .simulations = search.simulations(),
            .transitions = search.transitions()};
  }

  recompute::FlatGraph flat;
  recompute::Search search;
  int64_t bound_peak;
};

RecomputePlanner::RecomputePlanner(const RecomputeGraph& graph, const RecomputeOptions& options) {
  expect<ValueError>(options.effort > 0 && options.effort <= kMostEffort, "recompute",
                     "expected an effort above 0 and up to {}, got {}", kMostEffort,
                     options.effort);
  impl_ = std::make_unique<Impl>(graph, options);
}

RecomputePlanner::~RecomputePlanner() = default;

RecomputePlan RecomputePlanner::plan(int64_t budget) {
  expect<ValueError>(budget >= 0, "recompute", "expected a budget from 0, got {}", budget);
  budget -= impl_->flat.fixed;
  std::optional<Found> found = impl_->search.plan(budget);
  return impl_->result(found ? *found : impl_->search.least(), budget);
}

RecomputePlan RecomputePlanner::keep_all() {
  Found all = impl_->search.keep_all();
  return impl_->result(all, all.cost.peak);
}

RecomputePlan RecomputePlanner::least() {
  const Found& least = impl_->search.least();
  return plan(impl_->flat.fixed + least.cost.peak);
}

RecomputePlan RecomputePlanner::least_at_any_time() {
  const Found& least = impl_->search.least();
  return impl_->result(least, least.cost.peak);
}

double RecomputePlanner::bound_seconds(int64_t budget) const {
  return recompute::bound_seconds(impl_->flat, budget - impl_->flat.fixed);
}

std::vector<RecomputePlan> RecomputePlanner::front(int points) {
  expect<ValueError>(points >= 2, "recompute", "expected 2 points or more, got {}", points);
  std::vector<RecomputePlan> front{keep_all()};
  const int64_t most = front[0].peak, least = front[0].least_peak;
  for (int i = 1; i < points; ++i) {
    // In steps that cannot overflow.
    RecomputePlan next = plan(most - (most - least) / (points - 1) * i);
    if (i == points - 1) next = plan(least);
    while (!front.empty() && front.back().extra_seconds >= next.extra_seconds &&
           front.back().peak >= next.peak)
      front.pop_back();
    if (front.empty() || next.peak < front.back().peak) front.push_back(std::move(next));
  }
  return front;
}

RecomputePlan plan_recompute(const RecomputeGraph& graph, int64_t budget,
                             const RecomputeOptions& options) {
  return RecomputePlanner(graph, options).plan(budget);
}

}  // namespace brim::memory
