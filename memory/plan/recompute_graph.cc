#include "brim/memory/plan/recompute_graph.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "brim/base/error.h"

namespace brim::memory {
namespace {

constexpr const char* kTag = "recompute";
constexpr int64_t kMost = int64_t{1} << 62;

/// Bytes that count towards a limit which sums of them never reach.
class ByteSum {
 public:
  void add(int64_t bytes, std::string_view what, size_t number) {
    expect<ValueError>(bytes >= 0, kTag, "expected bytes from 0 of {} {}, got {}", what, number,
                       bytes);
    expect<ValueError>(bytes < kMost - sum_, kTag,
                       "expected bytes that add up to less than 2^62, got more by {} {}", what,
                       number);
    sum_ += bytes;
  }

 private:
  int64_t sum_ = 0;
};

void check_seconds(double seconds, std::string_view what, size_t number) {
  expect<ValueError>(std::isfinite(seconds) && seconds >= 0, kTag,
                     "expected finite seconds from 0 of {} {}, got {}", what, number, seconds);
}

void check_value(const RecomputeGraph& graph, size_t number) {
  const auto& value = graph.values[number];
  expect<ValueError>(
      value.producer >= -1 && value.producer < static_cast<int64_t>(graph.ops.size()), kTag,
      "expected a producer from -1 to {} of value {}, got {}",
      static_cast<int64_t>(graph.ops.size()) - 1, number, value.producer);
  expect<ValueError>(value.producer >= 0 || !value.may_drop, kTag,
                     "expected that value {}, a source, may not be dropped", number);
  expect<ValueError>(value.producer >= 0 || !value.may_offload, kTag,
                     "expected that value {}, a source, may not be offloaded", number);
}

void check_reads(const RecomputeGraph& graph, std::span<const int32_t> reads,
                 std::string_view reader, size_t number) {
  for (int32_t v : reads)
    expect<ValueError>(v >= 0 && static_cast<size_t>(v) < graph.values.size(), kTag,
                       "expected {} {} to read values from 0 to {}, got {}", reader, number,
                       static_cast<int64_t>(graph.values.size()) - 1, v);
}

void check_op(const RecomputeGraph& graph, size_t number) {
  const auto& op = graph.ops[number];
  check_seconds(op.seconds, "op", number);
  check_seconds(op.replay_seconds, "a replay of op", number);
  check_seconds(op.row_seconds, "rows of op", number);
  check_reads(graph, op.reads, "op", number);
  for (int32_t v : op.reads)
    expect<ValueError>(graph.values[static_cast<size_t>(v)].producer < static_cast<int64_t>(number),
                       kTag, "expected op {} to read what earlier ops made, got value {} of op {}",
                       number, v, graph.values[static_cast<size_t>(v)].producer);
  if (!op.replay_reads) return;
  check_reads(graph, *op.replay_reads, "a replay of op", number);
  for (int32_t v : *op.replay_reads) {
    const auto& value = graph.values[static_cast<size_t>(v)];
    const bool own = value.producer == static_cast<int64_t>(number) && !value.may_drop;
    expect<ValueError>(own || value.producer < static_cast<int64_t>(number), kTag,
                       "expected a replay of op {} to read what is there, got value {} of op {}",
                       number, v, value.producer);
  }
}

void check_step(const RecomputeGraph& graph, size_t number) {
  const auto& step = graph.steps[number];
  check_seconds(step.seconds, "backward step", number);
  check_reads(graph, step.reads, "backward step", number);
  for (const auto* list : {&step.by_rows, &step.or_sources})
    for (int32_t v : *list)
      expect<ValueError>(std::ranges::count(step.reads, v) > 0, kTag,
                         "expected backward step {} to do without what it reads, got value {}",
                         number, v);
  for (int32_t v : step.by_rows)
    expect<ValueError>(graph.values[static_cast<size_t>(v)].row_group >= 0, kTag,
                       "expected backward step {} to read what has rows by rows, got value {}",
                       number, v);
}

}  // namespace

void check_graph(const RecomputeGraph& graph) {
  expect<ValueError>(std::isfinite(graph.host_bytes_per_second) && graph.host_bytes_per_second >= 0,
                     kTag, "expected finite bytes per second from 0 of the host, got {}",
                     graph.host_bytes_per_second);
  expect<ValueError>(graph.host_bytes >= 0, kTag, "expected bytes from 0 of the host, got {}",
                     graph.host_bytes);
  ByteSum sum;
  sum.add(graph.fixed_bytes, "the fixed part", 0);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    check_value(graph, i);
    sum.add(graph.values[i].bytes, "value", i);
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    check_op(graph, i);
    sum.add(graph.ops[i].scratch, "op", i);
    sum.add(graph.ops[i].replay_scratch, "a replay of op", i);
  }
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    check_step(graph, i);
    sum.add(graph.steps[i].held_before, "backward step", i);
    sum.add(graph.steps[i].held, "backward step", i);
  }
}

double step_seconds(const RecomputeGraph& graph) {
  double seconds = 0;
  for (const auto& op : graph.ops) seconds += op.seconds;
  for (const auto& step : graph.steps) seconds += step.seconds;
  return seconds;
}

}  // namespace brim::memory
