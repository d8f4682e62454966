// How much a model would miss each of its channels: a score for each unit of each group, with a
// mean of 1 in every group, so that layers of other sizes and scales can be compared. The lowest go
// first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "brim/shrink/channel_groups.h"

namespace brim::shrink {

enum class Criterion {
  /// Sum of the magnitudes, or root of the sum of the squares, of all weights of products that make
  /// or read the unit. Li et al., "Pruning Filters for Efficient ConvNets", ICLR 2017; over a group
  /// as Fang et al., "DepGraph", CVPR 2023.
  l1,
  l2,
  /// Magnitude of the scales of its batch norms. Liu et al.,
  /// "Learning Efficient Convolutional Networks through Network Slimming", ICCV 2017. Groups
  /// without a batch norm: as l2.
  batch_norm,
  /// The square of what the loss would change, to first order, without its filters, scales and
  /// shifts: the parameters times their gradients. Molchanov et al., "Importance Estimation for
  /// Neural Network Pruning", CVPR 2019. Groups whose parameters are all frozen: as l2.
  taylor,
  /// How far its filters are from those of the other units, all together: what lies in the middle
  /// of the others is replaced by them. He et al., "Filter Pruning via Geometric Median", CVPR
  /// 2019.
  /// Groups that no convolution makes: as l2.
  geometric_median,
  /// Drawn, to compare with.
  random,
};

/// The names above. Throws `ValueError` for another, with the nearest.
Criterion criterion_of(std::string_view name);
std::string_view to_string(Criterion criterion);
const std::vector<std::string>& criterion_names();

/// `[group][unit]`, from 0.
using UnitScores = std::vector<std::vector<double>>;

/// Adds those of another batch, say; `sums` may be empty.
void add_scores(UnitScores& sums, const UnitScores& scores);

/// `groups` are those of the model. `seed` is of `random`. Throws `ValueError` for `taylor` where a
/// parameter has no gradient: run backward on a batch first, and add the scores of several, each by
/// its own gradients, which in a trained model nearly cancel in their sum; for weights or gradients
/// that are not finite.
UnitScores unit_scores(nn::Module& model, const ChannelGroups& groups, Criterion criterion,
                       uint64_t seed = 0);

}  // namespace brim::shrink
