#include "brim/memory/report/outliving.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "brim/base/bytes.h"

namespace brim::memory {
namespace {

constexpr size_t kShown = 20;

std::vector<TraceSection> sections_of(const Trace& trace) {
  if (!trace.sections.empty()) return trace.sections;
  return {{.end = trace.end}};
}

struct Span {
  int64_t begin = 0, end = 0;
};

Span span_of(const std::vector<TraceSection>& sections) {
  Span span{sections.front().begin, sections.front().end};
  for (const TraceSection& section : sections) {
    span.begin = std::min(span.begin, section.begin);
    span.end = std::max(span.end, section.end);
  }
  return span;
}

bool is_state(const TraceBuffer& buffer, const Span& sections) {
  return buffer.category == Category::parameters || buffer.category == Category::optimizer ||
         (buffer.birth < sections.begin && buffer.death >= sections.end);
}

/// As if the marked buffers died after their last use.
std::vector<Lifetime> lifetimes_if(const Trace& trace, const std::vector<bool>& given_back) {
  std::vector<Lifetime> lifetimes = trace.lifetimes();
  for (size_t i = 0; i < lifetimes.size(); ++i)
    if (given_back[i])  // never used, it is there for a moment nevertheless
      lifetimes[i].upper = std::max(trace.buffers[i].last_use, lifetimes[i].lower + 1);
  return lifetimes;
}

std::string describe(const TraceBuffer& buffer) {
  std::string text = fmt::format("{} {}", to_string(buffer.category), buffer.shape);
  std::string origin = to_string(buffer.origin);
  return origin.empty() ? text : text + ", " + origin;
}

}  // namespace

Outliving find_outliving(const Trace& trace) {
  const std::vector<TraceSection> sections = sections_of(trace);
  const Span all = span_of(sections);
  Outliving found;
  std::vector<bool> idle(trace.buffers.size());
  for (size_t i = 0; i < trace.buffers.size(); ++i) {
    const TraceBuffer& buffer = trace.buffers[i];
    idle[i] =
        !is_state(buffer, all) && buffer.last_use < buffer.death && buffer.death > buffer.birth + 1;
    if (idle[i])
      found.buffers.push_back(
          {.buffer = static_cast<int64_t>(i), .idle = buffer.death - buffer.last_use});
  }
  const std::vector<int64_t> live = live_bytes(trace.lifetimes(), trace.end),
                             needed = live_bytes(lifetimes_if(trace, idle), trace.end);
  for (const TraceSection& section : sections) {
    if (section.begin == section.end) continue;
    auto first = live.begin() + section.begin, last = live.begin() + section.end;
    auto peak = std::max_element(first, last);
    int64_t at = peak - live.begin();
    OutlivingAtPeak here{.section = section.section,
                         .peak = *peak,
                         .possible = *std::max_element(needed.begin() + section.begin,
                                                       needed.begin() + section.end)};
    for (OutlivingBuffer& outliving : found.buffers) {
      const TraceBuffer& buffer = trace.buffers[static_cast<size_t>(outliving.buffer)];
      if (std::max(buffer.last_use, buffer.birth + 1) > at || buffer.death <= at) continue;
      outliving.bytes_at_peak = buffer.bytes;
      here.bytes += buffer.bytes;
    }
    found.sections.push_back(here);
  }
  auto badness = [&](const OutlivingBuffer& b) {
    auto bytes = static_cast<double>(trace.buffers[static_cast<size_t>(b.buffer)].bytes);
    return std::pair(b.bytes_at_peak, bytes * static_cast<double>(b.idle));
  };
  std::ranges::stable_sort(found.buffers, std::ranges::greater(), badness);
  return found;
}

std::string to_string(const Outliving& outliving, const Trace& trace) {
  std::string text;
  std::set<std::string> lines;
  for (const OutlivingAtPeak& s : outliving.sections) {
    std::string line = fmt::format("{}: peak {} live, {} of it held for nothing; {} would do\n",
                                   to_string(s.section), format_bytes(s.peak),
                                   format_bytes(s.bytes), format_bytes(s.possible));
    if (lines.insert(line).second) text += line;
  }
  size_t shown = 0;
  for (const OutlivingBuffer& each : outliving.buffers) {
    if (each.bytes_at_peak == 0 || shown++ == kShown) break;
    const TraceBuffer& buffer = trace.buffers[static_cast<size_t>(each.buffer)];
    text += fmt::format("  {:>10}  {}; held for {} requests after its last use\n",
                        format_bytes(buffer.bytes), describe(buffer), each.idle);
  }
  return text;
}

}  // namespace brim::memory
