#include "brim/memory/report/page_data.h"

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "brim/base/json_text.h"
#include "brim/memory/fetch_name.h"
#include "brim/memory/report/first_lives.h"
#include "brim/memory/report/live_curve.h"
#include "brim/memory/report/markup.h"
#include "brim/memory/report/trace_overlay.h"
#include "brim/memory/report/trace_view.h"

namespace brim::memory {
namespace {

using Json = nlohmann::ordered_json;

/// Texts and origins by number, so that each is written once.
class Tables {
 public:
  int64_t text(const std::string& value) {
    auto [at, added] = text_ids_.try_emplace(value, texts_.size());
    if (added) texts_.push_back(value);
    return at->second;
  }
  int64_t origin(const Origin& value) {
    Key key{text(value.op), text(value.module), text(value.file), value.line,
            static_cast<int64_t>(value.phase)};
    auto [at, added] = origin_ids_.try_emplace(key, origins_.size());
    if (added) origins_.push_back(key);
    return at->second;
  }
  void write(Json& page) const {
    page["strings"] = texts_;
    page["origins"] = origins_;
  }

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;
  std::unordered_map<std::string, int64_t> text_ids_;
  std::map<Key, int64_t> origin_ids_;
  std::vector<std::string> texts_;
  std::vector<Key> origins_;
};

/// Death and last use count from the birth, which is the buffer's number, as the first life counts
/// back from it, 0 being none: short numbers.
Json buffers_json(const Trace& trace, const std::vector<int64_t>& offsets, Tables& tables) {
  std::vector<int64_t> bytes, category, shape, origin, death, last_use;
  std::vector<int64_t> first_life = first_lives(trace);
  for (const TraceBuffer& buffer : trace.buffers) {
    bytes.push_back(buffer.bytes);
    category.push_back(static_cast<int64_t>(buffer.category));
    shape.push_back(tables.text(buffer.shape));
    origin.push_back(tables.origin(buffer.origin));
    death.push_back(buffer.death - buffer.birth);
    last_use.push_back(buffer.last_use - buffer.birth);
    int64_t& first = first_life[static_cast<size_t>(buffer.birth)];
    first = first < 0 ? 0 : buffer.birth - first;
  }
  return {{"bytes", bytes},    {"category", category},    {"shape", shape},
          {"origin", origin},  {"death", death},          {"last_use", last_use},
          {"offset", offsets}, {"first_life", first_life}};
}

Json ops_json(const Trace& trace, Tables& tables) {
  std::vector<int64_t> origin, begin;
  std::vector<std::vector<int64_t>> reads, writes;
  for (const TraceOp& op : trace.ops) {
    origin.push_back(tables.origin(op.origin));
    begin.push_back(op.begin);
    reads.push_back(op.inputs);
    writes.push_back(op.outputs);
  }
  return {{"origin", origin}, {"begin", begin}, {"reads", reads}, {"writes", writes}};
}

Json sections_json(const Trace& trace) {
  Json all = Json::array();
  for (const TraceSection& each : trace.sections)
    all.push_back({to_string(each.section), each.begin, each.end, each.step});
  return all;
}

Json views_json(const std::vector<TraceView>& views) {
  Json all = Json::array();
  for (const TraceView& view : views) all.push_back({view.label, view.begin, view.end, view.depth});
  return all;
}

/// Live bytes of each run as the first number and then differences.
Json overlay_json(const TraceOverlay& overlay) {
  Json runs = Json::array();
  for (const OverlayRun& run : overlay.runs) {
    std::vector<int64_t> steps = run.live;
    for (size_t i = steps.size(); --i > 0;) steps[i] -= steps[i - 1];
    runs.push_back({run.begin, steps});
  }
  return {{"runs", runs},
          {"compared", overlay.compared},
          {"largest_difference", overlay.largest_difference},
          {"same_length", overlay.same_length}};
}

std::vector<std::string> phase_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kPhaseCount; ++i) names.emplace_back(to_string(static_cast<Phase>(i)));
  return names;
}

}  // namespace

std::string page_data(const Trace& trace, const PageOptions& options) {
  const int64_t peak = peak_time(totals(live_curve(trace)));
  const std::vector<TraceView> views = views_of(trace);
  Tables tables;
  Json page = {{"title", options.title},
               {"subtitle", options.subtitle},
               {"categories", kCategoryNames},
               {"phases", phase_names()},
               {"fetch", kFetch},
               {"arena_bytes", options.arena_bytes},
               {"budget", options.budget},
               {"peak_live", trace.peak_live()},
               {"peak_time", peak},
               {"predicted_peak_live", options.predicted_peak_live},
               {"predicted_peak_reserved", options.predicted_peak_reserved},
               {"measured_peak_live", options.measured_peak_live},
               {"measured_peak_reserved", options.measured_peak_reserved},
               {"sections", sections_json(trace)},
               {"views", views_json(views)},
               {"view", view_at(views, peak)},
               {"buffers", buffers_json(trace, options.offsets, tables)},
               {"ops", ops_json(trace, tables)}};
  tables.write(page);
  if (options.measured != nullptr)
    page["measured"] = overlay_json(overlay(trace, *options.measured));
  return for_script(json_text(std::move(page)));
}

}  // namespace brim::memory
