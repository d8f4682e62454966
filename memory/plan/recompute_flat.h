// A recomputation graph as arrays that a simulation runs through: values numbered by their
// producers, so that what a range of ops makes is a range too. The planner's own; programs call
// recompute.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "brim/memory/plan/recompute_graph.h"

namespace brim::memory::recompute {

inline size_t at(int64_t i) { return static_cast<size_t>(i); }

inline constexpr std::array kFates{Fate::keep, Fate::retain, Fate::remake, Fate::offload};

/// Lists of numbers, one after another.
struct Rows {
  std::vector<int32_t> begins{0}, items;

  void end_row() { begins.push_back(static_cast<int32_t>(items.size())); }
  std::span<const int32_t> operator[](int32_t row) const {
    return {items.data() + begins[at(row)], items.data() + begins[at(row) + 1]};
  }
};

/// Of what a backward step reads: what does where it is not there.
enum class Instead : uint8_t {
  nothing,  ///< it is made again
  rows,     ///< some at a time
  sources,  ///< what a replay of its producer reads
};

struct FlatGraph {
  /// Throws what `check_graph` throws.
  explicit FlatGraph(const RecomputeGraph& graph);

  int32_t ops() const { return static_cast<int32_t>(scratch.size()); }
  int32_t steps() const { return static_cast<int32_t>(held.size()); }
  int32_t values() const { return static_cast<int32_t>(bytes.size()); }
  bool may_be(int32_t v, Fate fate) const {
    if (fate == Fate::keep) return true;
    return fate == Fate::offload ? may_offload[at(v)] : may_drop[at(v)];
  }
  bool may_leave(int32_t v) const { return may_drop[at(v)] || may_offload[at(v)]; }
  /// Seconds per byte, by its cheapest way to leave, were that all that runs.
  double price(int32_t v) const {
    return may_offload[at(v)] ? std::min(density[at(v)], 1 / host_bytes_per_second)
                              : density[at(v)];
  }
  /// In the numbers of the graph, with what may not be dropped kept.
  std::vector<Fate> to_graph(std::span<const Fate> saving) const;
  std::vector<Fate> from_graph(std::span<const Fate> saving) const;
  /// The same, but that nothing is offloaded.
  FlatGraph without_host() const;
  std::vector<Fate> all_kept() const { return std::vector<Fate>(bytes.size(), Fate::keep); }

  // By value, without the sources.
  std::vector<int32_t> number;  // in the graph
  std::vector<int64_t> bytes;
  std::vector<int32_t> producer;
  std::vector<uint8_t> may_drop, cheap;
  std::vector<uint8_t> may_offload;  // saved too, and there is a host
  std::vector<uint8_t> saved;        // a backward step reads it
  std::vector<int32_t> last_read;    // by a forward op; its producer where there is none
  std::vector<int32_t> last_step;    // that reads it; -1: none
  std::vector<int32_t> row_group;    // -1: none
  std::vector<int32_t> last_use;     // the last op, by number, at which forward, a replay or
                                     // backward reads it
  std::vector<double> density;       // seconds of a replay per byte that it gives
  // Those that may be offloaded, in the order in which their copies would begin.
  std::vector<int32_t> offload_order;
  // By op.
  std::vector<int32_t> first_output;  // and one more: the number of values
  Rows replay_reads;                  // without sources
  std::vector<double> op_seconds, replay_seconds, row_seconds;
  std::vector<int64_t> scratch, replay_scratch;
  // By backward step.
  Rows step_reads;               // without sources, each once
  std::vector<Instead> instead;  // by item of `step_reads`
  std::vector<double> step_seconds;
  std::vector<int64_t> held_before, held;
  /// The last op whose values this step or a later one reads; -1 for none. Falls from step to step.
  std::vector<int32_t> anchor;

  int64_t fixed = 0;  // with the sources
  double seconds = 0;
  double host_bytes_per_second = 0;
  int64_t host_bytes = 0;

 private:
  void add_values(const RecomputeGraph& graph);
  void add_reads(Rows& rows, std::span<const int32_t> reads) const;
  void add_step(const RecomputeGraph::BackwardStep& step);
  void find_last_uses(const RecomputeGraph& graph);
  void find_densities();
  void find_offloads(const RecomputeGraph& graph);

  std::vector<int32_t> flat_;  // by number in the graph; -1: a source
};

}  // namespace brim::memory::recompute
