// A training step as recomputation sees it: values with bytes, ops with seconds, never a tensor.
// It is filled from a trace; recompute.h plans on it, recompute_simulation.h says what a plan costs
// and defines what happens when. Not for packing: offsets come from lifetimes (pack.h).
//
// Storages are the unit: what ops write in place is one value of one op, whose replay runs them
// all. Views are their storage.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "brim/memory/plan/fate.h"

namespace brim::memory {

struct RecomputeGraph {
  struct Value {
    int64_t bytes = 0;
    /// The forward op that makes it; -1: a source, which always lives (parameters, the batch).
    int32_t producer = -1;
    /// Its producer can run again. Values of an op that cannot, and those that are not worth it
    /// (statistics), are kept.
    bool may_drop = false;
    /// Of an op that costs about as much as reading and writing its bytes: elementwise,
    /// normalisation, concatenation. A hint for the search.
    bool cheap = false;
    /// It may go to host memory, where a backward step reads it and there is such memory; whether
    /// its producer can run again or not.
    bool may_offload = false;
    /// Rows of it, such as some images of a batch, can be made from the same rows of what its
    /// producer reads, in one go with those of values of the same number. -1: only all of it.
    int32_t row_group = -1;
  };

  /// In the order in which they run. Its outputs are the values that name it as their producer.
  struct ForwardOp {
    double seconds = 0;
    double replay_seconds = 0;   ///< of running it again, which may be cheaper
    double row_seconds = 0;      ///< of the same for rows after rows, each gone when it was read
    int64_t scratch = 0;         ///< bytes that live only while it runs, in forward
    int64_t replay_scratch = 0;  ///< the same of a replay
    std::vector<int32_t> reads;  ///< values, all of them of earlier ops or sources
    /// What a replay reads, where that differs. It may read outputs of its own that may not be
    /// dropped: batch norm its statistics.
    std::optional<std::vector<int32_t>> replay_reads;
  };

  /// In the order in which they run, after the last forward op. Gradients are not values: nobody
  /// rebuilds them, so they are bytes that are held at a time.
  struct BackwardStep {
    double seconds = 0;
    std::vector<int32_t> reads;    ///< saved values, of any forward op
    std::vector<int32_t> by_rows;  ///< of `reads`: where it is not there, some rows at a time do
    /// Of `reads`: where it is not there, what its producer's replay reads does as well.
    std::vector<int32_t> or_sources;
    /// Bytes beside values and `fixed_bytes` that live just before it runs, while what it lacks is
    /// rebuilt: gradients on their way, gradients of parameters so far.
    int64_t held_before = 0;
    int64_t held = 0;  ///< the same while it runs, with its scratch and what it makes
  };

  std::vector<Value> values;
  std::vector<ForwardOp> ops;
  std::vector<BackwardStep> steps;
  int64_t fixed_bytes = 0;           ///< what lives throughout and is no value
  double host_bytes_per_second = 0;  ///< of copies to host memory, and of copies back; 0: none go
  int64_t host_bytes = 0;            ///< that may lie there at a time
};

/// Throws `ValueError` for numbers out of range: values that are not there, or are read before they
/// are made; a replay that reads a value of its own op which may be dropped, or of a later one;
/// sources that may be dropped or offloaded; steps that do without what they do not read, or
/// without all of what has no rows; bytes, seconds and speeds below 0 or not finite; bytes that add
/// up to 2^62.
void check_graph(const RecomputeGraph& graph);

/// Seconds of the step when everything is kept.
double step_seconds(const RecomputeGraph& graph);

}  // namespace brim::memory
