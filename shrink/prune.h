// Structured pruning: channels of a model are removed for real, so that it is smaller and faster,
// and still trains. Which ones can go, and what goes with them, is found from the model's trace
// (shrink/channel_groups.h); which ones go, by their importance (shrink/importance.h).
//
//   shrink::Pruner pruner(model, {1, 224, 224, 3});
//   shrink::PruningPlan plan = pruner.to(0.5, shrink::flops_of({1, 224, 224, 3}));
//   shrink::remove_channels(model, plan.cut);  // then make the optimizer, and train on
//
// For weights that are set to zero and stay where they are, which saves nothing by itself, see
// shrink/weight_masks.h.
#pragma once

#include <functional>
#include <memory>

#include "brim/nn/resize.h"
#include "brim/shrink/channel_cut.h"
#include "brim/shrink/importance.h"

namespace brim::shrink {

struct PruneOptions {
  Criterion criterion = Criterion::l2;
  /// Importance of your own instead: what `unit_scores` gives, one score for each unit of each
  /// group; none for the criterion's.
  std::function<UnitScores(nn::Module& model, const ChannelGroups& groups)> scores = {};
  /// Rank the units of all groups together; else remove the same share of each.
  bool global = true;
  /// Channels that a group keeps are a multiple of this, as kernels like them, or all.
  int64_t multiple = 8;
  /// The share of its channels that every group keeps at least.
  double least = 0.1;
  /// Where the model had more channels once: the shapes of its tensors then. `least` is of those.
  nn::TensorShapes first_shapes = {};
  /// Modules and parameters whose shapes stay as they are.
  std::vector<std::string> exclude;
  uint64_t seed = 0;  ///< of `Criterion::random`
};

/// What a model takes of something. It is called with the model on the meta device, as small as it
/// would be.
using Cost = std::function<double(nn::Module& model)>;
/// Floating point operations of a forward pass of this input, in eval mode.
Cost flops_of(const Shape& input);
/// Elements of all parameters.
Cost parameters_of();

/// What is to go, and what that buys.
struct PruningPlan {
  KeptUnits kept;
  ChannelCut cut;
  double removed = 0;            ///< the share of all units
  double before = 0, after = 0;  ///< the cost
};

/// Plans what to remove from a model, as it is when this is made; nothing of the model changes.
class Pruner {
 public:
  /// `input` is the shape of the model's input. Throws `ValueError` for options out of range, and
  /// what `find_channel_groups` and `unit_scores` throw.
  Pruner(nn::Module& model, const Shape& input, const PruneOptions& options = {});
  ~Pruner();

  const ChannelGroups& groups() const { return groups_; }
  /// Units of all groups.
  int64_t units() const;

  /// The least important units whose removal brings the cost to at most `fraction` of the model's,
  /// with as much left as is found room for; how much room is left is in the plan. Throws
  /// `ValueError` for one outside (0, 1], and one that is not to be had, with the least possible;
  /// `ShapeError` for a model whose code says how many channels there are where there would be
  /// fewer.
  PruningPlan to(double fraction, const Cost& cost) const;
  /// Without this share of all units, in [0, 1], as far as the options let them go. Throws as `to`.
  PruningPlan ratio(double share, const Cost& cost) const;
  /// Without this share of the units of one group alone, the number of `groups().groups`: how much
  /// the model misses them. Throws as `to`.
  PruningPlan group_ratio(size_t group, double share, const Cost& cost) const;

 private:
  class Ranking;

  PruningPlan plan_of(KeptUnits kept, const Cost& cost) const;
  double cost_without(const std::vector<int64_t>& gone, const Cost& cost) const;
  std::vector<int64_t> with_room_used(std::vector<int64_t> gone, double wanted, double before,
                                      const Cost& cost) const;

  nn::Module& model_;
  ChannelGroups groups_;
  std::unique_ptr<Ranking> ranking_;
};

}  // namespace brim::shrink
