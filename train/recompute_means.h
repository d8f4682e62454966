// What may be done to saved tensors where a training is planned for a budget. A header of its own,
// because a training says it (train/ladder.h) and the planner reads it (train/recompute_plan.h).
#pragma once

namespace brim {

struct RecomputeMeans {
  bool drop = true;
  bool offload = true;  ///< where the training offloads at all
  /// Where nothing fits, search for what needs least; else that is the least plan of the graph,
  /// however long its steps take.
  bool search_least = true;
};

}  // namespace brim
