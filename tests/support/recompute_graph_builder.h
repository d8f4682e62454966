// Builds a training step as a graph for recomputation: forward ops one after another, each with
// what its backward step reads. The backward steps follow by themselves, in reverse, with the
// gradients that live then. For recompute_networks.cc and recompute_random_graphs.cc.
#pragma once

#include <utility>
#include <vector>

#include "brim/memory/plan/recompute_graph.h"

namespace brim::testing {

/// What the backward step of an op reads and takes.
struct Backward {
  std::vector<int32_t> reads;
  double seconds = 0;
  int64_t scratch = 0;
  std::vector<int32_t> by_rows = {}, or_sources = {};
};

/// Collects forward ops; the backward steps follow in reverse, with the gradients that live then: a
/// value's from the step of its last reader to that of its producer.
class GraphBuilder {
 public:
  int32_t value(const memory::RecomputeGraph::Value& value) {
    graph_.values.push_back(value);
    return static_cast<int32_t>(graph_.values.size()) - 1;
  }
  /// The number that the next op will have.
  int32_t next_op() const { return static_cast<int32_t>(graph_.ops.size()); }
  void set(int32_t v, const memory::RecomputeGraph::Value& value) {
    graph_.values[static_cast<size_t>(v)] = value;
  }
  void add(memory::RecomputeGraph::ForwardOp op, Backward backward) {
    graph_.ops.push_back(std::move(op));
    backwards_.push_back(std::move(backward));
  }
  int32_t row_group(int32_t v) const { return graph_.values[static_cast<size_t>(v)].row_group; }
  int64_t bytes(int32_t v) const { return graph_.values[static_cast<size_t>(v)].bytes; }

  memory::RecomputeGraph finish(int64_t fixed_bytes) {
    graph_.fixed_bytes = fixed_bytes;
    const auto ops = static_cast<int32_t>(graph_.ops.size());
    for (int32_t op = ops; op-- > 0;) {
      Backward& backward = backwards_[static_cast<size_t>(op)];
      graph_.steps.push_back({.seconds = backward.seconds,
                              .reads = backward.reads,
                              .by_rows = backward.by_rows,
                              .or_sources = backward.or_sources});
      graph_.steps.back().held = backward.scratch;
    }
    std::vector<int32_t> last_reader(graph_.values.size(), -1);
    for (int32_t op = 0; op < ops; ++op)
      for (int32_t v : graph_.ops[static_cast<size_t>(op)].reads)
        last_reader[static_cast<size_t>(v)] = op;
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].producer >= 0 && last_reader[v] >= 0)
        add_gradient(graph_.values[v].bytes, ops - 1 - last_reader[v],
                     ops - 1 - graph_.values[v].producer);
    return std::move(graph_);
  }

 private:
  void add_gradient(int64_t bytes, int32_t born, int32_t last) {
    for (int32_t step = born; step <= last; ++step) {
      auto& of_step = graph_.steps[static_cast<size_t>(step)];
      of_step.held += bytes;
      if (step > born) of_step.held_before += bytes;
    }
  }

  memory::RecomputeGraph graph_;
  std::vector<Backward> backwards_;
};

}  // namespace brim::testing
