#include "brim/memory/plan/plan.h"

#include <algorithm>
#include <map>

#include "brim/base/error.h"
#include "brim/memory/plan/check_plan.h"
#include "brim/memory/plan/pack.h"
#include "brim/memory/plan/program_spans.h"
#include "brim/memory/plan/same_threads.h"
#include "brim/memory/source.h"

namespace brim::memory {
namespace {

// What to be content with, and for how much work: nearly every program packs into `bytes` at once.
// The last bytes of the others take most of the work, which is not spent on a thousandth of them.
struct Rung {
  double above;  // a share of the bytes
  int64_t nodes;
};
constexpr Rung kRungs[] = {{0, 250'000}, {0.001, 500'000}, {0.005, 500'000}, {0.02, 500'000}};

Packing pack_low(std::span<const Lifetime> lifetimes, int64_t bytes) {
  Packing lowest;
  for (const Rung& rung : kRungs) {
    const auto more = static_cast<int64_t>(rung.above * static_cast<double>(bytes));
    if (lowest.offsets.empty() || lowest.height > bytes + more) {
      Packing packing =
          pack(lifetimes, {.alignment = kAlignment, .capacity = bytes + more, .nodes = rung.nodes});
      if (lowest.offsets.empty() || packing.height < lowest.height) lowest = std::move(packing);
    }
    if (lowest.height <= bytes + more) break;
  }
  return lowest;
}

class Maker {
 public:
  Maker(const Trace& trace, int threads, Plan& plan)
      : trace_(trace),
        threads_(threads),
        plan_(plan),
        spans_(find_programs(trace)),
        live_(live_bytes(trace.lifetimes(), trace.end)) {}

  void run() {
    find_bound();
    find_kept_places();
    plan_.arena_bytes = plan_.kept_bytes;
    ProgramSpan setup{false, {{.end = spans_.setup_end}}};
    add_program({&setup});
    for (const auto& runs : recurring()) add_program(runs);
  }

 private:
  using Runs = std::vector<const ProgramSpan*>;  // of one program, in order

  const TraceBuffer& buffer(int64_t i) const { return trace_.buffers[static_cast<size_t>(i)]; }

  int64_t peak_live(int64_t begin, int64_t end) const {
    int64_t peak = 0;
    for (int64_t t = begin; t < end; ++t) peak = std::max(peak, live_[static_cast<size_t>(t)]);
    return peak;
  }

  void find_bound() {
    plan_.lower_bound = peak_live(0, spans_.end());
    auto peak = std::ranges::find(live_, plan_.lower_bound) - live_.begin();
    for (const TraceBuffer& buffer : trace_.buffers)
      if (buffer.birth <= peak && peak < buffer.death)
        plan_.at_peak[static_cast<size_t>(buffer.category)] += buffer.bytes;
  }

  // As many places of each size as were held at a time.
  void find_kept_places() {
    std::vector<std::vector<int64_t>> deaths(static_cast<size_t>(trace_.end) + 1);
    std::map<int64_t, int64_t> held;
    std::map<int64_t, size_t> number;
    for (const TraceBuffer& buffer : trace_.buffers) {
      for (int64_t bytes : deaths[static_cast<size_t>(buffer.birth)]) --held[bytes];
      if (!spans_.kept[static_cast<size_t>(buffer.birth)]) continue;
      deaths[static_cast<size_t>(buffer.death)].push_back(buffer.bytes);
      auto [found, fresh] = number.emplace(buffer.bytes, plan_.kept.size());
      if (fresh) plan_.kept.push_back({.bytes = buffer.bytes});
      KeptPlaces& places = plan_.kept[found->second];
      places.count = std::max(places.count, ++held[buffer.bytes]);
    }
    for (KeptPlaces& places : plan_.kept) {
      places.offset = plan_.kept_bytes;
      plan_.kept_bytes += places.count * places.bytes;
    }
  }

  std::vector<Runs> recurring() const {
    std::vector<Runs> all;
    for (const ProgramSpan& program : spans_.programs) {
      auto same = [&](const Runs& runs) {
        return runs.front()->step == program.step &&
               runs.front()->sections.front().section == program.sections.front().section;
      };
      auto found = std::ranges::find_if(all, same);
      if (found == all.end()) found = all.insert(all.end(), Runs{});
      found->push_back(&program);
    }
    return all;
  }

  // One run of a section.
  struct Instance {
    const ProgramSpan* program;
    const SectionSpan* span;
    int64_t size() const { return span->end - span->begin; }
  };
  // A different section of a program, and where its requests begin in the program.
  struct Part {
    std::vector<Instance> instances;  // in order; the last one is planned for
    int64_t begin = 0;
    const Instance& last() const { return instances.back(); }
    const Section& section() const { return last().span->section; }
    int64_t size() const { return last().size(); }
  };

  // Each different section of the runs once, in an order in which each run has them.
  static std::vector<Part> parts_of(const Runs& runs) {
    std::vector<Part> parts;
    for (const ProgramSpan* run : runs) {
      size_t next = 0;
      for (const SectionSpan& span : run->sections) {
        auto found = std::ranges::find(parts, span.section, &Part::section);
        if (found == parts.end())
          found = parts.insert(parts.begin() + static_cast<ptrdiff_t>(next), Part{{{run, &span}}});
        else
          found->instances.push_back({run, &span});
        next = static_cast<size_t>(found - parts.begin()) + 1;
      }
    }
    int64_t begin = 0;
    for (Part& part : parts) {
      part.begin = begin;
      begin += part.size();
    }
    return parts;
  }

  // When a buffer that a run of the part asked for dies, counted in requests of the program.
  static int64_t death_in_run(const TraceBuffer& buffer, const Part& own, const Instance& run,
                              const std::vector<Part>& parts) {
    if (buffer.death <= run.span->end) return own.begin + buffer.death - run.span->begin;
    int64_t end = parts.back().begin + parts.back().size();
    for (const SectionSpan& span : run.program->sections) {
      if (buffer.death <= span.begin || buffer.death > span.end) continue;
      const Part& part = *std::ranges::find(parts, span.section, &Part::section);
      int64_t death = part.begin + std::min(buffer.death - span.begin, part.size());
      return part.begin > own.begin ? death : end;
    }
    return end;
  }

  // The latest of all runs, for request `k` of the part. Sections that follow each other in one run
  // need not in another: gradients of a first micro-step may be added up, and be gone, in that of a
  // smaller update, and in another one that is planned behind it.
  int64_t death_in_program(int64_t k, const Part& own, const std::vector<Part>& parts) const {
    int64_t death = 0;
    for (const Instance& run : own.instances)
      if (run.size() == own.size())
        death = std::max(death, death_in_run(buffer(run.span->begin + k), own, run, parts));
    return death;
  }

  void add_program(const Runs& runs) {
    std::vector<Part> parts = parts_of(runs);
    PlannedProgram program{.step = runs.front()->step};
    for (const Part& part : parts) {
      const SectionSpan& span = *part.last().span;
      PlannedSection& section = program.sections.emplace_back();
      section.section = span.section;
      section.nested = span.nested;
      section.preamble = span.body - span.begin;
      section.peak_live = peak_live(span.begin, span.end);
      for (int64_t i = span.begin; i < span.end; ++i)
        section.requests.push_back(request(i, part, parts));
    }
    place(program);
    plan_.arena_bytes = std::max(plan_.arena_bytes, program.top);
    plan_.programs.push_back(std::move(program));
  }

  PlannedRequest request(int64_t i, const Part& part, const std::vector<Part>& parts) {
    const TraceBuffer& buffer = this->buffer(i);
    const SectionSpan& span = *part.last().span;
    bool first = i == span.begin || i == span.body;
    PlannedRequest request{.bytes = buffer.bytes, .site = site(buffer.origin)};
    request.begins_run = first || begins_run(buffer, this->buffer(i - 1));
    if (!spans_.kept[static_cast<size_t>(i)])
      request.death = death_in_program(i - span.begin, part, parts);
    return request;
  }

  int32_t site(const Origin& origin) {
    PlannedSite site{origin.op, origin.module, origin.phase};
    auto [found, fresh] = sites_.emplace(site, static_cast<int32_t>(plan_.sites.size()));
    if (fresh) plan_.sites.push_back(std::move(site));
    return found->second;
  }

  void place(PlannedProgram& program) const {
    std::vector<Lifetime> lifetimes;
    std::vector<PlannedRequest*> requests;
    int64_t time = 0;
    for (PlannedSection& section : program.sections)
      for (PlannedRequest& request : section.requests) {
        int64_t birth = time++;
        if (request.death == 0) continue;
        lifetimes.push_back({birth, request.death, request.bytes});
        requests.push_back(&request);
      }
    // As high as the arena must be anyway is low enough.
    const int64_t room = plan_.lower_bound - plan_.kept_bytes;
    const Packing packing = pack_low(lifetimes, std::max(room, most_live(lifetimes, time)));
    const std::vector<int64_t> offsets =
        with_same_threads(lifetimes, packing.offsets, packing.height, kAlignment, threads_);
    for (size_t i = 0; i < requests.size(); ++i)
      requests[i]->offset = plan_.kept_bytes + offsets[i];
    program.top = plan_.kept_bytes + packing.height;
  }

  const Trace& trace_;
  int threads_;
  Plan& plan_;
  ProgramSpans spans_;
  std::vector<int64_t> live_;
  std::map<PlannedSite, int32_t> sites_;
};

}  // namespace

double Plan::gap() const {
  return lower_bound == 0 ? 0
                          : static_cast<double>(arena_bytes) / static_cast<double>(lower_bound) - 1;
}

Plan make_plan(const Trace& trace, const PlanOptions& options) {
  Plan plan{.identity = options.identity};
  Maker(trace, options.threads, plan).run();
  try {
    check_plan(plan);
  } catch (const FileError& error) {
    raise<InternalError>("plan", "what was made cannot be run: {}", error.what());
  }
  return plan;
}

}  // namespace brim::memory
