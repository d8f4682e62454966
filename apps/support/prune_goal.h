// "flops=0.5": what of a model is to become less, and how much of it is left. Of `prune --to` and
// `train --prune-to`. In a program of your own write a `shrink::Cost`.
#pragma once

#include <string>

#include "brim/nn/resize.h"
#include "brim/shrink/prune.h"

namespace brim::apps {

struct TrainData;
struct TrainFlags;

enum class GoalKind {
  flops,  ///< of a forward pass
  bytes,  ///< reserved peak of a training step
  infer,  ///< of a forward pass without training
  time,   ///< predicted, of a training step
  parameters,
  ratio,  ///< channels that can go; the number is the share that does
};

struct PruneGoal {
  std::string name = "flops";
  GoalKind kind = GoalKind::flops;
  double amount = 0.5;  ///< as it was given
  /// The share that is left.
  double left() const { return kind == GoalKind::ratio ? 1 - amount : amount; }
};

/// For --help.
std::string goal_help();

/// Throws `ValueError` naming the flag for a name that is none, with the nearest, and a number that
/// is not above 0 and up to 1.
PruneGoal parse_goal(const std::string& text, const char* flag);

/// What the goal counts, of a model of the flags with other shapes. Refers to both.
shrink::Cost cost_of(const PruneGoal& goal, const TrainFlags& flags, const TrainData& data,
                     const std::vector<std::string>& exclude);

}  // namespace brim::apps
