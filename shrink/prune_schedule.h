// Gradual pruning: at which updates of a training channels go, and how much is left then. Much at
// first, while there is plenty, and little towards the end: Zhu and Gupta, "To Prune, or Not to
// Prune", 2017, equation 1, with the first step at `begin`. The updates between two are there to
// recover in.
#pragma once

#include <cstdint>
#include <optional>

namespace brim::shrink {

struct PruneSchedule {
  /// Of what the model took before: the share that is left in the end, in (0, 1].
  double target = 0.5;
  /// Updates done before the first pruning, before the last one at most, and from one to the next.
  int64_t begin = 0, end = 0, every = 1;

  /// Throws `ValueError` for a number out of range.
  void validate() const;
  /// Prunings in all.
  int64_t count() const { return (end - begin) / every + 1; }
  /// The share that is to be left from after so many updates on; nothing where none is pruned then.
  std::optional<double> at(int64_t updates) const;
};

}  // namespace brim::shrink
