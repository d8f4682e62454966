#include "brim/memory/report/chrome_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "brim/base/json_text.h"
#include "brim/memory/fetch_name.h"
#include "brim/memory/report/live_curve.h"
#include "brim/memory/report/trace_view.h"

namespace brim::memory {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMicroseconds = 1e6;

/// Microseconds of the times of a trace, which count requests. Of ops they are measured, where a
/// device computed, and requests between two measured moments are spread evenly; where nothing was
/// measured, as on the meta device, a request is a microsecond.
class TraceClock {
 public:
  struct Span {
    double begin = 0, end = 0;  ///< microseconds
  };

  /// The trace must outlive the clock.
  explicit TraceClock(const Trace& trace);

  /// When request `time` was made: never less than for an earlier one.
  double at(int64_t time) const;
  Span of(const TraceOp& op) const;
  /// From the first op that ran in these times to the last.
  Span between(int64_t begin, int64_t end) const;

 private:
  const Trace& trace_;
  bool measured_ = false;
  std::vector<std::pair<int64_t, double>> knots_;  // both rise
};

TraceClock::TraceClock(const Trace& trace) : trace_(trace) {
  for (const TraceOp& op : trace.ops) {
    measured_ |= op.end_seconds > 0;
    knots_.emplace_back(op.begin, op.begin_seconds * kMicroseconds);
    knots_.emplace_back(op.end, op.end_seconds * kMicroseconds);
  }
  std::ranges::sort(knots_);
  for (size_t i = 1; i < knots_.size(); ++i)
    knots_[i].second = std::max(knots_[i].second, knots_[i - 1].second);
}

double TraceClock::at(int64_t time) const {
  if (!measured_) return static_cast<double>(time);
  auto after = std::ranges::upper_bound(knots_, time, {}, &std::pair<int64_t, double>::first);
  if (after == knots_.begin()) return after->second;
  auto before = after - 1;
  if (after == knots_.end()) return before->second;
  const double share =
      static_cast<double>(time - before->first) / static_cast<double>(after->first - before->first);
  return before->second + share * (after->second - before->second);
}

TraceClock::Span TraceClock::of(const TraceOp& op) const {
  if (!measured_) return {static_cast<double>(op.begin), static_cast<double>(op.end)};
  return {op.begin_seconds * kMicroseconds, op.end_seconds * kMicroseconds};
}

TraceClock::Span TraceClock::between(int64_t begin, int64_t end) const {
  if (!measured_) return {static_cast<double>(begin), static_cast<double>(end)};
  std::optional<Span> span;
  for (const TraceOp& op : trace_.ops) {
    if (op.begin < begin || op.end > end) continue;
    const Span part = of(op);
    if (!span) span = part;
    span = {std::min(span->begin, part.begin), std::max(span->end, part.end)};
  }
  return span.value_or(Span{at(begin), at(end)});
}

// Rows of the one process. Steps, sections and ops have one each: an op that asks for nothing has
// no length where requests are the clock, and would not nest.
enum Row { kSteps = 1, kSections, kOps };

Json named(const char* what, int row, const char* name) {
  return {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", row}, {"args", {{"name", name}}}};
}

Json slice(Row row, const std::string& name, TraceClock::Span span) {
  return {{"name", name}, {"ph", "X"}, {"ts", span.begin}, {"dur", span.end - span.begin},
          {"pid", 1},     {"tid", row}};
}

int64_t bytes_of(const Trace& trace, const std::vector<int64_t>& ids) {
  int64_t sum = 0;
  for (int64_t id : ids) sum += trace.buffers[static_cast<size_t>(id)].bytes;
  return sum;
}

Json op_event(const Trace& trace, const TraceOp& op, const TraceClock& clock) {
  const Phase phase = op.origin.phase;
  const bool says =
      (phase == Phase::backward && !fetched_op(op.origin.op)) || phase == Phase::recompute;
  const std::string way = says ? std::string(" ") + to_string(phase) : "";
  Json event = slice(kOps, op.origin.op + way, clock.of(op));
  event["cat"] = to_string(op.origin.phase);
  Json& args = event["args"];
  args = {{"module", op.origin.module},
          {"source", op.origin.file + ":" + std::to_string(op.origin.line)},
          {"output_bytes", bytes_of(trace, op.outputs)},
          {"bytes_moved", op.bytes_moved},
          {"flops", op.flops}};
  if (!op.outputs.empty()) args["shape"] = trace.buffers[static_cast<size_t>(op.outputs[0])].shape;
  return event;
}

Json counter(double time, const BytesByCategory& bytes) {
  Json args;
  for (size_t i = 0; i < kCategories; ++i) args[std::string(kCategoryNames[i])] = bytes[i];
  return {{"name", "live bytes"}, {"ph", "C"}, {"ts", time}, {"pid", 1}, {"args", args}};
}

}  // namespace

std::string chrome_trace(const Trace& trace) {
  check_trace(trace, "chrome_trace");
  const TraceClock clock(trace);
  Json events = Json::array();
  events.push_back(named("process_name", kSteps, "brim"));
  events.push_back(named("thread_name", kSteps, "steps"));
  events.push_back(named("thread_name", kSections, "sections"));
  events.push_back(named("thread_name", kOps, "ops"));
  for (const TraceView& view : views_of(trace))
    if (view.depth == 1)
      events.push_back(slice(kSteps, view.label, clock.between(view.begin, view.end)));
  for (const TraceSection& each : trace.sections)
    events.push_back(
        slice(kSections, to_string(each.section), clock.between(each.begin, each.end)));
  for (const TraceOp& op : trace.ops) events.push_back(op_event(trace, op, clock));
  const std::vector<BytesByCategory> curve = live_curve(trace);
  for (size_t t = 0; t < curve.size(); ++t)
    events.push_back(counter(clock.at(static_cast<int64_t>(t)), curve[t]));
  return json_text(Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}});
}

}  // namespace brim::memory
