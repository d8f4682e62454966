#include "brim/memory/report/trace_overlay.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <queue>

#include "brim/memory/report/live_curve.h"

namespace brim::memory {
namespace {

struct Span {
  int64_t begin = 0, end = 0;
};

Span set_up(const Trace& trace) {
  return {0, trace.sections.empty() ? trace.end : trace.sections[0].begin};
}

}  // namespace

TraceOverlay overlay(const Trace& predicted, const Trace& measured) {
  const std::vector<int64_t> expected = totals(live_curve(predicted));
  const std::vector<int64_t> live = totals(live_curve(measured));
  TraceOverlay result;
  auto compare = [&](Span a, Span b) {
    const int64_t length = std::min(a.end - a.begin, b.end - b.begin);
    result.same_length &= a.end - a.begin == b.end - b.begin;
    if (length == 0) return;
    result.runs.push_back({a.begin, {live.begin() + b.begin, live.begin() + b.begin + length}});
    for (int64_t i = 0; i < length; ++i)
      result.largest_difference =
          std::max(result.largest_difference, std::abs(live[static_cast<size_t>(b.begin + i)] -
                                                       expected[static_cast<size_t>(a.begin + i)]));
    result.compared += length;
  };
  compare(set_up(predicted), set_up(measured));
  std::map<Section, std::queue<Span>> partners;
  for (const TraceSection& section : measured.sections)
    partners[section.section].push({section.begin, section.end});
  for (const TraceSection& section : predicted.sections) {
    std::queue<Span>& queue = partners[section.section];
    if (queue.empty()) continue;
    compare({section.begin, section.end}, queue.front());
    queue.pop();
  }
  return result;
}

}  // namespace brim::memory
