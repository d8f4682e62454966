#include "brim/memory/plan/recompute_flat.h"

#include <algorithm>
#include <limits>

#include "brim/base/error.h"

namespace brim::memory::recompute {

FlatGraph::FlatGraph(const RecomputeGraph& graph) {
  check_graph(graph);
  fixed = graph.fixed_bytes;
  seconds = memory::step_seconds(graph);
  host_bytes_per_second = graph.host_bytes_per_second;
  host_bytes = graph.host_bytes;
  add_values(graph);
  for (const auto& op : graph.ops) {
    add_reads(replay_reads, op.replay_reads ? *op.replay_reads : op.reads);
    op_seconds.push_back(op.seconds);
    replay_seconds.push_back(op.replay_seconds);
    row_seconds.push_back(op.row_seconds);
    scratch.push_back(op.scratch);
    replay_scratch.push_back(op.replay_scratch);
  }
  for (const auto& step : graph.steps) add_step(step);
  find_last_uses(graph);
  find_densities();
  find_offloads(graph);
}

void FlatGraph::add_values(const RecomputeGraph& graph) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].producer < 0)
      fixed += graph.values[i].bytes;
    else
      number.push_back(static_cast<int32_t>(i));
  }
  std::ranges::stable_sort(number, {}, [&](int32_t v) { return graph.values[at(v)].producer; });
  flat_.assign(graph.values.size(), -1);
  first_output.assign(graph.ops.size() + 1, 0);
  for (int32_t v : number) {
    const auto& value = graph.values[at(v)];
    flat_[at(v)] = static_cast<int32_t>(bytes.size());
    bytes.push_back(value.bytes);
    producer.push_back(value.producer);
    may_drop.push_back(value.may_drop);
    cheap.push_back(value.cheap);
    row_group.push_back(value.row_group);
    ++first_output[at(value.producer) + 1];
  }
  for (size_t i = 1; i < first_output.size(); ++i) first_output[i] += first_output[i - 1];
}

void FlatGraph::add_reads(Rows& rows, std::span<const int32_t> reads) const {
  for (int32_t v : reads)
    if (flat_[at(v)] >= 0) rows.items.push_back(flat_[at(v)]);
  rows.end_row();
}

void FlatGraph::add_step(const RecomputeGraph::BackwardStep& step) {
  std::vector<int32_t> reads;
  for (int32_t v : step.reads)
    if (std::ranges::count(reads, v) == 0) reads.push_back(v);
  add_reads(step_reads, reads);
  for (int32_t v : reads) {
    if (flat_[at(v)] < 0) continue;
    const bool by_rows = std::ranges::count(step.by_rows, v) > 0,
               or_sources = std::ranges::count(step.or_sources, v) > 0;
    instead.push_back(or_sources ? Instead::sources : by_rows ? Instead::rows : Instead::nothing);
  }
  step_seconds.push_back(step.seconds);
  held_before.push_back(step.held_before);
  held.push_back(step.held);
}

void FlatGraph::find_last_uses(const RecomputeGraph& graph) {
  saved.assign(bytes.size(), 0);
  last_step.assign(bytes.size(), -1);
  for (int32_t step = 0; step < steps(); ++step)
    for (int32_t v : step_reads[step]) last_step[at(v)] = step;
  last_read = producer;
  for (int32_t op = 0; op < ops(); ++op)
    for (int32_t v : graph.ops[at(op)].reads)
      if (flat_[at(v)] >= 0) last_read[at(flat_[at(v)])] = op;
  last_use = last_read;
  for (int32_t op = 0; op < ops(); ++op)
    for (int32_t v : replay_reads[op]) last_use[at(v)] = std::max(last_use[at(v)], op);
  anchor.assign(at(steps()), -1);
  int32_t latest = -1;
  for (int32_t step = steps(); step-- > 0;) {
    for (int32_t v : step_reads[step]) {
      saved[at(v)] = 1;
      latest = std::max(latest, producer[at(v)]);
    }
    anchor[at(step)] = latest;
    for (int32_t v : step_reads[step]) last_use[at(v)] = std::max(last_use[at(v)], latest);
  }
}

/// What nobody reads as a whole costs what its rows do.
void FlatGraph::find_densities() {
  std::vector<uint8_t> is_read_whole(bytes.size(), 0);
  for (size_t i = 0; i < instead.size(); ++i)
    if (instead[i] == Instead::nothing) is_read_whole[at(step_reads.items[i])] = 1;
  density.assign(bytes.size(), std::numeric_limits<double>::infinity());
  for (int32_t op = 0; op < ops(); ++op) {
    int64_t dropped = 0;
    for (int32_t v = first_output[at(op)]; v < first_output[at(op) + 1]; ++v)
      if (may_drop[at(v)]) dropped += bytes[at(v)];
    for (int32_t v = first_output[at(op)]; dropped > 0 && v < first_output[at(op) + 1]; ++v) {
      const bool has_rows = saved[at(v)] && !is_read_whole[at(v)];
      density[at(v)] =
          (has_rows ? row_seconds : replay_seconds)[at(op)] / static_cast<double>(dropped);
    }
  }
}

void FlatGraph::find_offloads(const RecomputeGraph& graph) {
  for (int32_t v = 0; v < values(); ++v) {
    may_offload.push_back(graph.values[at(number[at(v)])].may_offload && saved[at(v)] &&
                          bytes[at(v)] > 0 && host_bytes_per_second > 0);
    if (may_offload[at(v)]) offload_order.push_back(v);
  }
  std::ranges::stable_sort(offload_order, {}, [&](int32_t v) { return last_read[at(v)]; });
}

FlatGraph FlatGraph::without_host() const {
  FlatGraph graph = *this;
  graph.may_offload.assign(bytes.size(), 0);
  graph.offload_order.clear();
  return graph;
}

std::vector<Fate> FlatGraph::to_graph(std::span<const Fate> saving) const {
  std::vector<Fate> result(flat_.size(), Fate::keep);
  for (size_t v = 0; v < number.size(); ++v)
    if (may_be(static_cast<int32_t>(v), saving[v])) result[at(number[v])] = saving[v];
  return result;
}

std::vector<Fate> FlatGraph::from_graph(std::span<const Fate> saving) const {
  expect<ValueError>(saving.size() == flat_.size(), "recompute",
                     "expected a decision for each of {} values, got {}", flat_.size(),
                     saving.size());
  std::vector<Fate> result;
  int64_t offloaded = 0;
  for (size_t v = 0; v < number.size(); ++v) {
    result.push_back(saving[at(number[v])]);
    const bool is_offloaded = result[v] == Fate::offload;
    expect<ValueError>(may_be(static_cast<int32_t>(v), result[v]), "recompute",
                       "expected value {} to be kept, which may not be {}", number[v],
                       is_offloaded ? "offloaded" : "dropped");
    if (is_offloaded) offloaded += bytes[v];
  }
  expect<ValueError>(offloaded <= host_bytes, "recompute",
                     "expected at most {} bytes offloaded, as many as the host has, got {}",
                     host_bytes, offloaded);
  return result;
}

}  // namespace brim::memory::recompute
