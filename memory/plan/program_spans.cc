#include "brim/memory/plan/program_spans.h"

#include <algorithm>

namespace brim::memory {
namespace {

// In order, without those that lie inside another one, which names them.
std::vector<std::pair<SectionSpan, int64_t>> outer_sections(const Trace& trace) {
  std::vector<const TraceSection*> sorted;
  for (const TraceSection& section : trace.sections) sorted.push_back(&section);
  std::ranges::stable_sort(sorted, [](const TraceSection* a, const TraceSection* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end > b->end;
  });
  std::vector<std::pair<SectionSpan, int64_t>> outer;
  for (const TraceSection* section : sorted) {
    if (!outer.empty() && section->begin < outer.back().first.end) {
      outer.back().first.nested.push_back(section->section);
      continue;
    }
    int64_t begin = outer.empty() ? 0 : outer.back().first.end;
    outer.push_back({{section->section, {}, begin, section->begin, section->end}, section->step});
  }
  return outer;
}

bool asks_the_same(const TraceBuffer& a, const TraceBuffer& b) {
  return a.bytes == b.bytes && a.origin.op == b.origin.op;
}

// What comes before the first program is set-up, but for what comes before each program like it: a
// batch that the caller makes, say.
void end_setup(const Trace& trace, ProgramSpans& spans) {
  SectionSpan& first = spans.programs.front().sections.front();
  spans.setup_end = first.body;
  for (size_t i = spans.programs.size(); i-- > 1;) {
    const ProgramSpan& program = spans.programs[i];
    const SectionSpan& other = program.sections.front();
    if (program.step != spans.programs.front().step || other.section != first.section) continue;
    int64_t count = other.body - other.begin;
    if (count > first.body) return;
    auto buffers = trace.buffers.begin();
    if (std::equal(buffers + other.begin, buffers + other.body, buffers + first.body - count,
                   asks_the_same))
      spans.setup_end = first.body - count;
    break;
  }
  first.begin = spans.setup_end;
}

void find_kept(const Trace& trace, ProgramSpans& spans) {
  spans.kept.assign(trace.buffers.size(), false);
  if (spans.programs.empty()) return;
  auto mark = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      spans.kept[static_cast<size_t>(i)] = trace.buffers[static_cast<size_t>(i)].death > end;
  };
  mark(0, spans.setup_end);
  for (const ProgramSpan& program : spans.programs) mark(program.begin(), program.end());
}

}  // namespace

bool begins_run(const TraceBuffer& buffer, const TraceBuffer& previous) {
  const Origin &origin = buffer.origin, &before = previous.origin;
  if (origin.op.empty() && before.op.empty()) return false;
  return buffer.run != previous.run || origin.op != before.op;
}

ProgramSpans find_programs(const Trace& trace) {
  ProgramSpans spans;
  int64_t step = -1;
  for (auto& [section, of_step] : outer_sections(trace)) {
    if (of_step < 0 || of_step != step) spans.programs.push_back({of_step >= 0, {}});
    step = of_step;
    spans.programs.back().sections.push_back(std::move(section));
  }
  if (spans.programs.empty())
    spans.setup_end = trace.end;
  else
    end_setup(trace, spans);
  find_kept(trace, spans);
  return spans;
}

}  // namespace brim::memory
