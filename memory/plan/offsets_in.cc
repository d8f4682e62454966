#include <algorithm>
#include <set>

#include "brim/memory/arena_planner.h"
#include "brim/memory/plan/plan.h"

namespace brim::memory {
namespace {

// Runs a trace again, on a planner over bytes that are not there.
class Rerun {
 public:
  Rerun(const Trace& trace, Planner& planner) : trace_(trace), planner_(planner) {
    for (const TraceSection& section : trace.sections) sections_.push_back(&section);
    std::ranges::stable_sort(sections_, [](const TraceSection* a, const TraceSection* b) {
      return a->begin != b->begin ? a->begin < b->begin : a->end > b->end;
    });
    deaths_.resize(static_cast<size_t>(trace.end) + 1);
    for (const TraceBuffer& buffer : trace.buffers)
      deaths_[static_cast<size_t>(buffer.death)].push_back(buffer.birth);
  }

  std::vector<Placement> run() {
    placements_.resize(trace_.buffers.size());
    for (int64_t t = 0; t <= trace_.end; ++t) {
      for (int64_t i : deaths_[static_cast<size_t>(t)])
        planner_.release(placements_[static_cast<size_t>(i)]);
      sections(t);
      if (t < trace_.end) ask(trace_.buffers[static_cast<size_t>(t)]);
    }
    return placements_;
  }

 private:
  void sections(int64_t t) {
    while (!open_.empty() && open_.back()->end <= t) end();
    while (next_ < sections_.size() && sections_[next_]->begin <= t) {
      const TraceSection& section = *sections_[next_++];
      if (open_.empty() && section.step != step_) {
        if (step_ >= 0) planner_.end_step();
        if (section.step >= 0) planner_.begin_step();
        step_ = section.step;
      }
      planner_.begin_section(section.section);
      open_.push_back(&section);
      while (!open_.empty() && open_.back()->end <= t && section.begin == section.end) end();
    }
  }

  void end() {
    planner_.end_section();
    open_.pop_back();
  }

  void ask(const TraceBuffer& buffer) {
    // Equal text has one address, as in a program.
    const std::string& op = *text_.insert(buffer.origin.op).first;
    const std::string* module = &*text_.insert(buffer.origin.module).first;
    Site site{.op = op.c_str(), .module = module, .phase = buffer.origin.phase};
    site.run = static_cast<uint64_t>(buffer.run) + 1;
    placements_[static_cast<size_t>(buffer.birth)] =
        planner_.place({.bytes = buffer.bytes, .category = buffer.category, .site = &site});
  }

  const Trace& trace_;
  Planner& planner_;
  std::vector<const TraceSection*> sections_, open_;
  size_t next_ = 0;
  int64_t step_ = -1;
  std::vector<std::vector<int64_t>> deaths_;
  std::vector<Placement> placements_;
  std::set<std::string> text_;
};

}  // namespace

std::vector<int64_t> offsets_in(const Plan& plan, const Trace& trace) {
  NullSource source;
  // Not owned, for it is there longer than the planner.
  ArenaPlanner planner(source, std::shared_ptr<const Plan>(std::shared_ptr<void>(), &plan));
  std::vector<int64_t> offsets;
  for (const Placement& placement : Rerun(trace, planner).run())
    offsets.push_back(planner.offset_of(placement));
  return offsets;
}

}  // namespace brim::memory
