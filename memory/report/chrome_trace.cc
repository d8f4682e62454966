#include "brim/memory/report/chrome_trace.h"

#include <nlohmann/json.hpp>

#include "brim/memory/report/live_curve.h"
#include "brim/memory/report/trace_view.h"

namespace brim::memory {
namespace {

using Json = nlohmann::ordered_json;

// Rows of the one process. Steps, sections and ops have one each: an op that asks for nothing has
// no length where requests are the clock, and would not nest.
enum Row { kSteps = 1, kSections, kOps };

Json named(const char* what, int row, const char* name) {
  return {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", row}, {"args", {{"name", name}}}};
}

Json slice(Row row, const std::string& name, int64_t begin, int64_t end) {
  return {{"name", name},       {"ph", "X"}, {"ts", begin},
          {"dur", end - begin}, {"pid", 1},  {"tid", row}};
}

int64_t bytes_of(const Trace& trace, const std::vector<int64_t>& ids) {
  int64_t sum = 0;
  for (int64_t id : ids) sum += trace.buffers[static_cast<size_t>(id)].bytes;
  return sum;
}

Json op_event(const Trace& trace, const TraceOp& op) {
  const bool backward = op.origin.phase == Phase::backward;
  Json event = slice(kOps, op.origin.op + (backward ? " backward" : ""), op.begin, op.end);
  event["cat"] = to_string(op.origin.phase);
  Json& args = event["args"];
  args = {{"module", op.origin.module},
          {"source", op.origin.file + ":" + std::to_string(op.origin.line)},
          {"read_bytes", bytes_of(trace, op.inputs)},
          {"written_bytes", bytes_of(trace, op.outputs)},
          {"flops", op.flops}};
  if (!op.outputs.empty()) args["shape"] = trace.buffers[static_cast<size_t>(op.outputs[0])].shape;
  return event;
}

Json counter(int64_t time, const BytesByCategory& bytes) {
  Json args;
  for (size_t i = 0; i < kCategories; ++i) args[std::string(kCategoryNames[i])] = bytes[i];
  return {{"name", "live bytes"}, {"ph", "C"}, {"ts", time}, {"pid", 1}, {"args", args}};
}

}  // namespace

std::string chrome_trace(const Trace& trace) {
  check_trace(trace, "chrome_trace");
  Json events = Json::array();
  events.push_back(named("process_name", kSteps, "brim"));
  events.push_back(named("thread_name", kSteps, "steps"));
  events.push_back(named("thread_name", kSections, "sections"));
  events.push_back(named("thread_name", kOps, "ops"));
  for (const TraceView& view : views_of(trace))
    if (view.depth == 1) events.push_back(slice(kSteps, view.label, view.begin, view.end));
  for (const TraceSection& each : trace.sections)
    events.push_back(slice(kSections, to_string(each.section), each.begin, each.end));
  for (const TraceOp& op : trace.ops) events.push_back(op_event(trace, op));
  const std::vector<BytesByCategory> curve = live_curve(trace);
  for (size_t t = 0; t < curve.size(); ++t)
    events.push_back(counter(static_cast<int64_t>(t), curve[t]));
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace brim::memory
