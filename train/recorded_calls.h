// What happened in a step, call by call, and the graph that follows from it (recorded_step.h). Only
// for the recording; programs call `record_step`.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/memory/plan/recompute_graph.h"

namespace brim {

/// Values are storages with what is in them at the end: who writes over an input goes on with its
/// value.
struct RecordedCalls {
  struct Value {
    int64_t bytes = 0;
    std::vector<int32_t> makers;  ///< calls, in order; the later ones wrote over the earlier ones'
    bool may_drop = false;        ///< as far as its call goes
    bool may_offload = false;
    bool is_one_pass = true;  ///< all of its makers are
    /// Rows of it can be made by themselves, as far as its makers go, with those of values of the
    /// same number; -1: not.
    int32_t row_group = -1;
  };
  struct Call {
    std::vector<int32_t> inputs;   ///< values; -1: of a source
    std::vector<int32_t> outputs;  ///< values; -1: undefined, or a view of a source
    std::vector<int32_t> saved;    ///< values, each once
    std::vector<int32_t> by_rows;  ///< of `saved`: where it is dropped, rows of it do
    std::vector<int32_t> derived;  ///< of `saved`: where it is dropped, the inputs do
    double seconds = 0;
    double replay_seconds = 0;
    double row_seconds = 0;  ///< of running again for rows after rows
    /// It makes rows of its outputs from rows of its inputs, none of which is a view.
    bool has_rows = false;
    int64_t peak = 0;           ///< live bytes while it ran
    int64_t new_gradients = 0;  ///< bytes, of leaves, that its backward makes
    int32_t overwritten = -1;   ///< the value that it goes on with
  };
  struct Step {
    int32_t call = 0;
    double seconds = 0;
    int64_t peak = 0;  ///< live bytes while it ran
  };

  std::vector<Value> values;
  std::vector<Call> calls;  ///< in the order in which they ran
  std::vector<Step> steps;  ///< backward, likewise
  int64_t fixed_bytes = 0;  ///< live before the first call
};

/// Throws `InternalError` where the record does not fit together.
memory::RecomputeGraph graph_of(const RecordedCalls& recorded);

}  // namespace brim
