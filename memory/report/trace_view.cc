#include "brim/memory/report/trace_view.h"

#include <fmt/core.h>

#include <algorithm>

namespace brim::memory {
namespace {

/// A step and its sections, from number `first` on; returns the number after them.
size_t add_step(const std::vector<TraceSection>& sections, size_t first,
                std::vector<TraceView>& views) {
  TraceView step{.begin = sections[first].begin, .end = sections[first].end, .depth = 1};
  std::vector<TraceView> parts;
  size_t i = first;
  for (; i < sections.size() && sections[i].step == sections[first].step; ++i) {
    step.end = std::max(step.end, sections[i].end);
    if (sections[i].begin < sections[i].end)
      parts.push_back({to_string(sections[i].section), sections[i].begin, sections[i].end, 2});
  }
  if (parts.empty()) return i;
  step.label = fmt::format("Step {}", sections[first].step);
  if (parts.size() == 1) step.label += ": " + parts[0].label;
  views.push_back(step);
  if (parts.size() > 1) views.insert(views.end(), parts.begin(), parts.end());
  return i;
}

std::string capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] -= 'a' - 'A';
  return text;
}

}  // namespace

std::vector<TraceView> views_of(const Trace& trace) {
  std::vector<TraceView> views{{"Whole trace", 0, trace.end, 0}};
  const std::vector<TraceSection>& sections = trace.sections;
  if (!sections.empty() && sections[0].begin > 0)
    views.push_back({"Set-up", 0, sections[0].begin, 1});
  for (size_t i = 0; i < sections.size();) {
    if (sections[i].step >= 0) {
      i = add_step(sections, i, views);
      continue;
    }
    if (sections[i].begin < sections[i].end)
      views.push_back(
          {capitalized(to_string(sections[i].section)), sections[i].begin, sections[i].end, 1});
    ++i;
  }
  return views;
}

size_t view_at(const std::vector<TraceView>& views, int64_t time) {
  auto found = std::ranges::find_if(views, [&](const TraceView& view) {
    return view.depth == 1 && view.begin <= time && time < view.end;
  });
  return found == views.end() ? 0 : static_cast<size_t>(found - views.begin());
}

}  // namespace brim::memory
