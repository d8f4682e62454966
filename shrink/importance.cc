#include "brim/shrink/importance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "brim/autograd/op.h"
#include "brim/base/nearest.h"
#include "brim/memory/staging_scope.h"
#include "brim/ops/matmul.h"
#include "brim/ops/mul.h"
#include "brim/ops/permute.h"

namespace brim::shrink {
namespace {

constexpr std::array<std::pair<Criterion, std::string_view>, 6> kNames{
    {{Criterion::l1, "l1"},
     {Criterion::l2, "l2"},
     {Criterion::batch_norm, "batch_norm"},
     {Criterion::taylor, "taylor"},
     {Criterion::geometric_median, "geometric_median"},
     {Criterion::random, "random"}}};

using Scores = std::vector<double>;

// The model's tensors in the order of `groups`.
std::vector<Tensor> tensors_of(nn::Module& model, const ChannelGroups& groups) {
  std::unordered_map<std::string, Tensor> by_name;
  model.for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
    by_name.emplace(name, slot.tensor->detach());
    by_name.at(name).set_requires_grad(slot.tensor->requires_grad());
    if (slot.tensor->grad().defined()) by_name.at(name).set_grad(slot.tensor->grad());
  });
  std::vector<Tensor> tensors;
  for (const ChannelTensor& tensor : groups.tensors) {
    auto found = by_name.find(tensor.name);
    expect<ValueError>(found != by_name.end() && found->second.shape() == tensor.shape, "prune",
                       "the groups are another model's: expected {} of {}", tensor.name,
                       tensor.shape);
    tensors.push_back(found->second);
  }
  return tensors;
}

// The sum of f(element) over all elements with an index along `axis`, for each index.
template <class F>
Scores sums_along(const Tensor& tensor, int axis, const F& f) {
  const Tensor values = contiguous(convert_to(tensor, {.dtype = Dtype::float32}));
  const auto size = static_cast<size_t>(values.size(axis));
  size_t inner = 1;
  for (int i = axis + 1; i < values.dim(); ++i) inner *= static_cast<size_t>(values.size(i));
  Scores sums(size);
  const auto* x = values.data<float>();
  const float* end = x + values.numel();
  while (x != end)
    for (double& sum : sums)
      for (size_t i = 0; i < inner; ++i) sum += f(*x++);
  return sums;
}

Scores by_unit(const ChannelAxis& axis, const Scores& by_index, int64_t units) {
  Scores scores(static_cast<size_t>(units));
  for (size_t i = 0; i < axis.indices.size(); ++i)
    scores[i / static_cast<size_t>(axis.per_unit)] +=
        by_index[static_cast<size_t>(axis.indices[i])];
  return scores;
}

void add(Scores& sum, const Scores& term) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
}

bool is_weight(ChannelRole role) {
  return role == ChannelRole::output || role == ChannelRole::input;
}

/// Scores one group at a time.
class Scorer {
 public:
  Scorer(nn::Module& model, const ChannelGroups& groups, uint64_t seed)
      : groups_(groups), tensors_(tensors_of(model, groups)), key_(derive({seed}, "prune")) {}

  Scores score(size_t group, Criterion criterion) {
    const ChannelGroup& g = groups_.groups[group];
    switch (criterion) {
      case Criterion::l1:
        return magnitudes(g, is_weight, [](float x) { return std::fabs(x); });
      case Criterion::l2:
        return norms(g);
      case Criterion::batch_norm:
        return has_scale(g) ? scales(g) : norms(g);
      case Criterion::taylor:
        return changes(g);
      case Criterion::geometric_median:
        return has_filters(g) ? distances(g) : norms(g);
      case Criterion::random:
        break;
    }
    return draws(g, group);
  }

 private:
  template <class Wanted, class F>
  Scores magnitudes(const ChannelGroup& group, const Wanted& wanted, const F& f) const {
    Scores scores(static_cast<size_t>(group.units));
    for (const ChannelAxis& axis : group.axes)
      if (wanted(axis.role))
        add(scores, by_unit(axis, sums_along(tensors_[axis.tensor], axis.axis, f), group.units));
    return scores;
  }

  Scores norms(const ChannelGroup& group) const {
    Scores scores = magnitudes(group, is_weight, [](float x) { return double{x} * x; });
    for (double& score : scores) score = std::sqrt(score);
    return scores;
  }

  static bool is_scale(ChannelRole role) { return role == ChannelRole::scale; }
  static bool has_scale(const ChannelGroup& group) {
    return std::ranges::any_of(group.axes, is_scale, &ChannelAxis::role);
  }
  Scores scales(const ChannelGroup& group) const {
    return magnitudes(group, is_scale, [](float x) { return std::fabs(x); });
  }

  Scores changes(const ChannelGroup& group) const {
    Scores scores(static_cast<size_t>(group.units));
    bool any = false;
    for (const ChannelAxis& axis : group.axes) {
      if (axis.role == ChannelRole::input || axis.role == ChannelRole::statistic) continue;
      const Tensor& weight = tensors_[axis.tensor];
      if (!weight.requires_grad()) continue;  // frozen
      any = true;
      expect<ValueError>(weight.grad().defined(), "prune",
                         "the criterion taylor wants gradients, and {} has none: run backward on "
                         "some batches first",
                         groups_.tensors[axis.tensor].name);
      const Tensor product = mul(weight, convert_to(weight.grad(), {.dtype = weight.dtype()}));
      Scores change =
          by_unit(axis, sums_along(product, axis.axis, [](float x) { return x; }), group.units);
      for (double& c : change) c *= c;
      add(scores, change);
    }
    return any ? scores : norms(group);
  }

  // One row a unit: all weights of the axis that are its own.
  Tensor rows(const ChannelAxis& axis, int64_t units) const {
    std::vector<int> order{axis.axis};
    const Tensor& weight = tensors_[axis.tensor];
    for (int i = 0; i < weight.dim(); ++i)
      if (i != axis.axis) order.push_back(i);
    Tensor by_index = contiguous(permute(convert_to(weight, {.dtype = Dtype::float32}), order));
    const int64_t length = by_index.numel() / by_index.size(0);
    Tensor rows = empty({units, axis.per_unit * length});
    auto* to = rows.data<float>();
    for (int64_t index : axis.indices)
      to = std::copy_n(by_index.data<float>() + index * length, length, to);
    rows.storage()->note_write("prune");
    return rows;
  }

  bool is_filter(const ChannelAxis& axis) const {
    return axis.role == ChannelRole::output && tensors_[axis.tensor].dim() == 4;
  }
  bool has_filters(const ChannelGroup& group) const {
    return std::ranges::any_of(group.axes,
                               [&](const ChannelAxis& axis) { return is_filter(axis); });
  }

  // Of |a - b|^2 = |a|^2 + |b|^2 - 2 a b, the products of all pairs are one matrix.
  Scores distances(const ChannelGroup& group) const {
    const auto n = static_cast<size_t>(group.units);
    std::vector<double> products(n * n);
    for (const ChannelAxis& axis : group.axes) {
      if (!is_filter(axis)) continue;
      Tensor filters = rows(axis, group.units);
      const Tensor of_axis = matmul(filters, permute(filters, {1, 0}));
      const auto* product = of_axis.data<float>();
      for (size_t i = 0; i < n * n; ++i) products[i] += product[i];
    }
    Scores scores(n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        scores[i] += std::sqrt(
            std::max(0.0, products[i * n + i] + products[j * n + j] - 2 * products[i * n + j]));
    return scores;
  }

  Scores draws(const ChannelGroup& group, size_t number) const {
    Scores scores;
    for (int64_t unit = 0; unit < group.units; ++unit)
      scores.push_back(random_uniform(key_, number, static_cast<uint64_t>(unit)));
    return scores;
  }

  const ChannelGroups& groups_;
  std::vector<Tensor> tensors_;
  RandomKey key_;
};

// All alike where all are 0.
void normalise(Scores& scores) {
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  const auto count = static_cast<double>(scores.size());
  for (double& score : scores) score = sum > 0 ? score * count / sum : 1;
}

}  // namespace

const std::vector<std::string>& criterion_names() {
  static const auto* names = [] {
    auto* all = new std::vector<std::string>;
    for (const auto& [criterion, name] : kNames) all->emplace_back(name);
    return all;
  }();
  return *names;
}

Criterion criterion_of(std::string_view name) {
  auto found = std::ranges::find(kNames, name, &std::pair<Criterion, std::string_view>::second);
  expect<ValueError>(found != kNames.end(), "prune", "there is no criterion '{}'{}", name,
                     did_you_mean(name, criterion_names()));
  return found->first;
}

std::string_view to_string(Criterion criterion) {
  return std::ranges::find(kNames, criterion, &std::pair<Criterion, std::string_view>::first)
      ->second;
}

void add_scores(UnitScores& sums, const UnitScores& scores) {
  if (sums.empty())
    sums = scores;
  else
    for (size_t group = 0; group < sums.size(); ++group) add(sums[group], scores[group]);
}

UnitScores unit_scores(nn::Module& model, const ChannelGroups& groups, Criterion criterion,
                       uint64_t seed) {
  autograd::NoGradScope no_grad;
  memory::StagingScope staging;
  Scorer scorer(model, groups, seed);
  UnitScores scores;
  for (size_t group = 0; group < groups.groups.size(); ++group) {
    scores.push_back(scorer.score(group, criterion));
    const bool finite =
        std::ranges::all_of(scores.back(), [](double s) { return std::isfinite(s); });
    expect<ValueError>(
        finite, "prune",
        "the weights of {}, or gradients that the criterion looks at, are not finite",
        groups.groups[group].name);
    normalise(scores.back());
  }
  return scores;
}

}  // namespace brim::shrink
