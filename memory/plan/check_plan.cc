#include "brim/memory/plan/check_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "brim/base/error.h"
#include "brim/memory/source.h"

namespace brim::memory {
namespace {

// The planner keeps a note for each place: a count from outside must not make it run out of memory.
constexpr int64_t kMostKept = int64_t{1} << 20;

template <class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) raise<FileError>("plan", "{}", fmt::format(text, std::forward<Args>(args)...));
}

bool is_whole(int64_t bytes) { return bytes % kAlignment == 0; }

void check_kept(const Plan& plan, std::set<int64_t>& sizes) {
  int64_t top = 0, count = 0;
  for (const KeptPlaces& places : plan.kept) {
    require(places.bytes > 0 && is_whole(places.bytes) && places.count > 0 &&
                places.count <= (kMostBytes - top) / places.bytes,
            "{} places of {} bytes cannot be", places.count, places.bytes);
    require(sizes.insert(places.bytes).second, "there are two lists of places of {} bytes",
            places.bytes);
    require(places.offset == top, "places that are kept are at {}, the ones before end at {}",
            places.offset, top);
    top += places.count * places.bytes;
    require(places.count <= kMostKept && (count += places.count) <= kMostKept,
            "there are more than {} places", kMostKept);
  }
  require(top == plan.kept_bytes, "what is kept takes {} bytes, not {}", top, plan.kept_bytes);
}

// The buffers of a program at one time.
class Held {
 public:
  void add(int64_t number, const PlannedRequest& request) {
    int64_t end = request.offset + request.bytes;
    auto after = by_offset_.lower_bound(request.offset);
    bool apart = after == by_offset_.end() || after->first >= end;
    if (after != by_offset_.begin()) apart = apart && std::prev(after)->second <= request.offset;
    require(apart, "request {} is placed over one that is still held, at {}", number,
            request.offset);
    by_offset_.emplace(request.offset, end);
    deaths_.emplace(request.death, request.offset);
  }
  void drop_until(int64_t time) {
    while (!deaths_.empty() && deaths_.begin()->first <= time) {
      by_offset_.erase(deaths_.begin()->second);
      deaths_.erase(deaths_.begin());
    }
  }

 private:
  std::map<int64_t, int64_t> by_offset_;    // to where it ends
  std::multimap<int64_t, int64_t> deaths_;  // to the offset
};

void check_request(const Plan& plan, const PlannedProgram& program, const PlannedRequest& request,
                   int64_t number, int64_t count) {
  require(request.bytes > 0 && request.bytes <= kMostBytes && is_whole(request.bytes),
          "request {} is for {} bytes", number, request.bytes);
  require(request.site >= 0 && static_cast<size_t>(request.site) < plan.sites.size(),
          "request {} is from site {} of {}", number, request.site, plan.sites.size());
  if (request.offset < 0) return;
  require(is_whole(request.offset) && request.offset >= plan.kept_bytes &&
              request.offset <= program.top - request.bytes,
          "request {} for {} bytes is placed at {}, outside of {} to {}", number, request.bytes,
          request.offset, plan.kept_bytes, program.top);
  require(request.death > number && request.death <= count, "request {} of {} ends at {}", number,
          count, request.death);
}

void check_program(const Plan& plan, const PlannedProgram& program,
                   const std::set<int64_t>& kept_sizes) {
  require(!program.sections.empty(), "a program has no sections");
  require(
      program.top >= plan.kept_bytes && program.top <= plan.arena_bytes && is_whole(program.top),
      "a program ends at {}, outside of {} to {}", program.top, plan.kept_bytes, plan.arena_bytes);
  int64_t count = 0, number = 0;
  for (const PlannedSection& section : program.sections)
    count += static_cast<int64_t>(section.requests.size());
  Held held;
  for (const PlannedSection& section : program.sections) {
    require(
        section.preamble >= 0 && section.preamble <= static_cast<int64_t>(section.requests.size()),
        "{} of {} requests come before a section", section.preamble, section.requests.size());
    for (const PlannedRequest& request : section.requests) {
      check_request(plan, program, request, number, count);
      held.drop_until(number);
      if (request.offset >= 0)
        held.add(number, request);
      else
        require(kept_sizes.contains(request.bytes) && request.death == 0,
                "request {} has no place: none of {} bytes is kept", number, request.bytes);
      ++number;
    }
  }
}

}  // namespace

void check_plan(const Plan& plan) {
  std::set<int64_t> kept_sizes;
  check_kept(plan, kept_sizes);
  require(plan.arena_bytes <= kMostBytes && is_whole(plan.arena_bytes), "the arena has {} bytes",
          plan.arena_bytes);
  require(!plan.programs.empty(), "there are no programs");
  int64_t top = plan.kept_bytes, at_peak = 0;
  for (const PlannedProgram& program : plan.programs) {
    check_program(plan, program, kept_sizes);
    top = std::max(top, program.top);
  }
  require(top == plan.arena_bytes, "the arena has {} bytes, and its programs end at {}",
          plan.arena_bytes, top);
  for (int64_t bytes : plan.at_peak) {
    require(bytes >= 0 && bytes <= kMostBytes - at_peak, "{} bytes are live at the peak", bytes);
    at_peak += bytes;
  }
  require(at_peak == plan.lower_bound, "the categories add up to {} bytes at the peak, not to {}",
          at_peak, plan.lower_bound);
}

}  // namespace brim::memory
