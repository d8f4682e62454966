#include "brim/shrink/prune.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "brim/nn/eval_scope.h"
#include "brim/nn/summary.h"

namespace brim::shrink {
namespace {

void validate(const PruneOptions& options) {
  expect<ValueError>(options.multiple >= 1, "prune", "expected a multiple of at least 1, got {}",
                     options.multiple);
  expect<ValueError>(options.least >= 0 && options.least <= 1, "prune",
                     "expected a least share in [0, 1], got {}", options.least);
}

void require_share(double share) {
  expect<ValueError>(share >= 0 && share <= 1, "prune", "expected a ratio in [0, 1], got {}",
                     share);
}

int64_t count_of(double share, int64_t units) {
  return static_cast<int64_t>(std::floor(share * static_cast<double>(units)));
}

int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

double cost_after(nn::Module& model, const ChannelCut& cut, const Cost& cost) {
  nn::MetaScope on_meta(model);
  remove_channels(model, cut);
  try {
    return cost(model);
  } catch (const ShapeError& error) {
    raise<ShapeError>("prune",
                      "the model does not run with fewer channels, so its code says how many there "
                      "are; exclude the layers before that place: {}",
                      error.what());
  }
}

}  // namespace

Cost flops_of(const Shape& input) {
  return [input](nn::Module& model) {
    nn::EvalScope eval(model);
    return nn::summarize(model, input).flops;
  };
}

Cost parameters_of() {
  return [](nn::Module& model) { return static_cast<double>(model.parameter_count()); };
}

/// Which units go first, and how many may.
class Pruner::Ranking {
 public:
  Ranking(const ChannelGroups& groups, UnitScores scores, const PruneOptions& options)
      : groups_(groups), options_(options) {
    for (size_t g = 0; g < scores.size(); ++g) {
      std::vector<size_t>& order = orders_.emplace_back(scores[g].size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, {}, [&](size_t unit) { return scores[g][unit]; });
      for (size_t unit : order) all_.push_back({scores[g][unit], g});
    }
    std::ranges::stable_sort(all_, {}, &Unit::score);
  }

  int64_t units() const { return static_cast<int64_t>(all_.size()); }

  /// With the first `count` of all units gone, as far as the options allow.
  KeptUnits without(int64_t count) const { return without_each(gone_of_each(count)); }

  /// With the first `count` of one group's.
  KeptUnits without_of(size_t group, int64_t count) const {
    std::vector<int64_t> gone(orders_.size());
    gone[group] = count;
    return without_each(gone);
  }

 private:
  struct Unit {
    double score;
    size_t group;
  };

  KeptUnits without_each(const std::vector<int64_t>& gone) const {
    KeptUnits kept;
    for (size_t g = 0; g < orders_.size(); ++g) {
      const auto size = static_cast<int64_t>(orders_[g].size());
      std::vector<bool>& stays = kept.emplace_back(orders_[g].size(), true);
      const int64_t removed = size - allowed(g, size - gone[g]);
      for (int64_t i = 0; i < removed; ++i) stays[orders_[g][static_cast<size_t>(i)]] = false;
    }
    return kept;
  }

  std::vector<int64_t> gone_of_each(int64_t count) const {
    std::vector<int64_t> gone(orders_.size());
    if (options_.global) {
      for (int64_t i = 0; i < count; ++i) ++gone[all_[static_cast<size_t>(i)].group];
    } else {
      for (size_t g = 0; g < gone.size(); ++g)
        gone[g] = static_cast<int64_t>(orders_[g].size()) * count / units();
    }
    return gone;
  }

  // The number of units near `kept` that a group may keep.
  int64_t allowed(size_t group, int64_t kept) const {
    const ChannelGroup& g = groups_.groups[group];
    if (kept == g.units) return kept;
    const int64_t step = options_.multiple / std::gcd(options_.multiple, g.channels_per_unit());
    const auto share =
        static_cast<int64_t>(std::ceil(options_.least * static_cast<double>(g.units)));
    const int64_t least = rounded_up(std::max<int64_t>(share, 1), step);
    const int64_t nearest = (kept + step / 2) / step * step;
    return std::min(g.units, std::max(nearest, least));
  }

  const ChannelGroups& groups_;
  PruneOptions options_;
  std::vector<std::vector<size_t>> orders_;  // of each group's units, the least important first
  std::vector<Unit> all_;
};

Pruner::Pruner(nn::Module& model, const Shape& input, const PruneOptions& options) : model_(model) {
  validate(options);
  groups_ = find_channel_groups(model, input, {options.exclude});
  ranking_ = std::make_unique<Ranking>(
      groups_, unit_scores(model, groups_, options.criterion, options.seed), options);
}

Pruner::~Pruner() = default;

int64_t Pruner::units() const { return ranking_->units(); }

double Pruner::cost_without(int64_t units, const Cost& cost) const {
  return cost_after(model_, ChannelCut(groups_, ranking_->without(units)), cost);
}

PruningPlan Pruner::plan_of(KeptUnits kept, const Cost& cost) const {
  PruningPlan plan{.kept = std::move(kept)};
  plan.cut = ChannelCut(groups_, plan.kept);
  plan.before = cost_after(model_, {}, cost);
  plan.after = cost_after(model_, plan.cut, cost);
  int64_t removed = 0;
  for (const std::vector<bool>& group : plan.kept) removed += std::ranges::count(group, false);
  if (removed > 0) plan.removed = static_cast<double>(removed) / static_cast<double>(this->units());
  return plan;
}

PruningPlan Pruner::to(double fraction, const Cost& cost) const {
  expect<ValueError>(fraction > 0 && fraction <= 1, "prune",
                     "expected a fraction in (0, 1], got {}", fraction);
  const double before = cost_after(model_, {}, cost), wanted = fraction * before;
  const double least = cost_without(units(), cost);
  expect<ValueError>(least <= wanted, "prune",
                     "{:.4g} of {:.4g} cannot be had: the least possible is {:.4g}, {:.3f} of it",
                     wanted, before, least, least / before);
  int64_t too_few = -1, enough = units();
  while (enough - too_few > 1) {
    const int64_t middle = too_few + (enough - too_few) / 2;
    (cost_without(middle, cost) <= wanted ? enough : too_few) = middle;
  }
  return plan_of(ranking_->without(enough), cost);
}

PruningPlan Pruner::ratio(double share, const Cost& cost) const {
  require_share(share);
  return plan_of(ranking_->without(count_of(share, units())), cost);
}

PruningPlan Pruner::group_ratio(size_t group, double share, const Cost& cost) const {
  require_share(share);
  return plan_of(ranking_->without_of(group, count_of(share, groups_.groups.at(group).units)),
                 cost);
}

}  // namespace brim::shrink
