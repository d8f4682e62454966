#include "brim/shrink/prune.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "brim/nn/eval_scope.h"
#include "brim/nn/summary.h"

namespace brim::shrink {
namespace {

constexpr double kNear = 0.01;  // of the cost before; what is nearer to the target will do

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

UnitScores scores_of(nn::Module& model, const ChannelGroups& groups, const PruneOptions& options) {
  if (!options.scores) return unit_scores(model, groups, options.criterion, options.seed);
  UnitScores scores = options.scores(model, groups);
  bool valid = scores.size() == groups.groups.size();
  for (size_t g = 0; valid && g < scores.size(); ++g)
    valid = std::ssize(scores[g]) == groups.groups[g].units &&
            std::ranges::all_of(scores[g], [](double score) { return std::isfinite(score); });
  expect<ValueError>(valid, "prune", "expected a finite score for each unit of each group");
  return scores;
}

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
  /// Units of each group that go.
  using Counts = std::vector<int64_t>;

  Ranking(const ChannelGroups& groups, UnitScores scores, const PruneOptions& options)
      : groups_(groups), options_(options), scores_(std::move(scores)) {
    for (size_t g = 0; g < scores_.size(); ++g) {
      std::vector<size_t>& order = orders_.emplace_back(scores_[g].size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, {}, [&](size_t unit) { return scores_[g][unit]; });
      for (size_t unit : order) all_.push_back({scores_[g][unit], g});
    }
    std::ranges::stable_sort(all_, {}, &Unit::score);
  }

  int64_t units() const { return static_cast<int64_t>(all_.size()); }

  /// The first `count` of all units, as far as the options allow.
  Counts first(int64_t count) const {
    Counts gone(orders_.size());
    if (options_.global) {
      for (int64_t i = 0; i < count; ++i) ++gone[all_[static_cast<size_t>(i)].group];
    } else {
      for (size_t g = 0; g < gone.size(); ++g) gone[g] = size_of(g) * count / units();
    }
    for (size_t g = 0; g < gone.size(); ++g) gone[g] = allowed(g, gone[g]);
    return gone;
  }

  /// The first `count` of one group's.
  Counts first_of(size_t group, int64_t count) const {
    Counts gone(orders_.size());
    gone[group] = allowed(group, count);
    return gone;
  }

  /// Groups of which some units go, those first whose last to go is the most important.
  std::vector<size_t> pruned(const Counts& gone) const {
    std::vector<size_t> groups;
    for (size_t g = 0; g < gone.size(); ++g)
      if (gone[g] > 0) groups.push_back(g);
    std::ranges::stable_sort(groups, std::ranges::greater(), [&](size_t g) {
      return scores_[g][orders_[g][static_cast<size_t>(gone[g] - 1)]];
    });
    return groups;
  }

  /// Without the least that may be had back of one group.
  Counts with_more_of(size_t group, Counts gone) const {
    gone[group] -= std::min(gone[group], step_of(group));
    return gone;
  }

  KeptUnits without(const Counts& gone) const {
    KeptUnits kept;
    for (size_t g = 0; g < orders_.size(); ++g) {
      std::vector<bool>& stays = kept.emplace_back(orders_[g].size(), true);
      for (int64_t i = 0; i < gone[g]; ++i) stays[orders_[g][static_cast<size_t>(i)]] = false;
    }
    return kept;
  }

 private:
  struct Unit {
    double score;
    size_t group;
  };

  int64_t size_of(size_t group) const { return static_cast<int64_t>(orders_[group].size()); }

  int64_t step_of(size_t group) const {
    return options_.multiple /
           std::gcd(options_.multiple, groups_.groups[group].channels_per_unit());
  }

  // Of the axis that the group is named after, the same share of what it was.
  double first_size_of(size_t group) const {
    const ChannelAxis& axis = groups_.groups[group].named_axis();
    const ChannelTensor& tensor = groups_.tensors[axis.tensor];
    const auto now = static_cast<double>(size_of(group));
    auto found = options_.first_shapes.find(tensor.name);
    if (found == options_.first_shapes.end()) return now;
    return now * static_cast<double>(found->second[axis.axis]) /
           static_cast<double>(tensor.shape[axis.axis]);
  }

  // The number of units near `gone` that may go.
  int64_t allowed(size_t group, int64_t gone) const {
    if (gone == 0) return 0;
    const int64_t size = size_of(group), step = step_of(group);
    const auto share = static_cast<int64_t>(std::ceil(options_.least * first_size_of(group)));
    const int64_t least = rounded_up(std::max<int64_t>(share, 1), step);
    const int64_t nearest = (size - gone + step / 2) / step * step;
    return size - std::min(size, std::max(nearest, least));
  }

  const ChannelGroups& groups_;
  PruneOptions options_;
  UnitScores scores_;
  std::vector<std::vector<size_t>> orders_;  // of each group's units, the least important first
  std::vector<Unit> all_;
};

Pruner::Pruner(nn::Module& model, const Shape& input, const PruneOptions& options) : model_(model) {
  validate(options);
  groups_ = find_channel_groups(model, input, {options.exclude});
  ranking_ = std::make_unique<Ranking>(groups_, scores_of(model, groups_, options), options);
}

Pruner::~Pruner() = default;

int64_t Pruner::units() const { return ranking_->units(); }

double Pruner::cost_without(const std::vector<int64_t>& gone, const Cost& cost) const {
  return cost_after(model_, ChannelCut(groups_, ranking_->without(gone)), cost);
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

// Whole steps of many groups go at once, so the cost may be well below what was wanted: what is
// most important comes back as far as there is room.
std::vector<int64_t> Pruner::with_room_used(std::vector<int64_t> gone, double wanted, double before,
                                            const Cost& cost) const {
  double now = cost_without(gone, cost);
  for (size_t group : ranking_->pruned(gone)) {
    if (wanted - now <= kNear * before) break;
    std::vector<int64_t> fewer = ranking_->with_more_of(group, gone);
    if (const double then = cost_without(fewer, cost); then <= wanted) {
      gone = std::move(fewer);
      now = then;
    }
  }
  return gone;
}

PruningPlan Pruner::to(double fraction, const Cost& cost) const {
  expect<ValueError>(fraction > 0 && fraction <= 1, "prune",
                     "expected a fraction in (0, 1], got {}", fraction);
  const double before = cost_after(model_, {}, cost), wanted = fraction * before;
  const double least = cost_without(ranking_->first(units()), cost);
  expect<ValueError>(least <= wanted, "prune",
                     "{:.4g} of {:.4g} cannot be had: the least possible is {:.4g}, {:.3f} of it",
                     wanted, before, least, least / before);
  int64_t too_few = -1, enough = units();
  while (enough - too_few > 1) {
    const int64_t middle = too_few + (enough - too_few) / 2;
    (cost_without(ranking_->first(middle), cost) <= wanted ? enough : too_few) = middle;
  }
  return plan_of(ranking_->without(with_room_used(ranking_->first(enough), wanted, before, cost)),
                 cost);
}

PruningPlan Pruner::ratio(double share, const Cost& cost) const {
  require_share(share);
  return plan_of(ranking_->without(ranking_->first(count_of(share, units()))), cost);
}

PruningPlan Pruner::group_ratio(size_t group, double share, const Cost& cost) const {
  require_share(share);
  const int64_t count = count_of(share, groups_.groups.at(group).units);
  return plan_of(ranking_->without(ranking_->first_of(group, count)), cost);
}

}  // namespace brim::shrink
