#include "brim/memory/plan/check_packing.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "brim/base/error.h"

namespace brim::memory {
namespace {

constexpr const char* kTag = "check_packing";

struct Event {
  int64_t time = 0;
  bool begins = false;  // at one time, ends come first
  size_t buffer = 0;
};

std::vector<Event> events_of(std::span<const Lifetime> lifetimes) {
  std::vector<Event> events;
  events.reserve(lifetimes.size() * 2);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].size == 0) continue;
    events.push_back({lifetimes[i].lower, true, i});
    events.push_back({lifetimes[i].upper, false, i});
  }
  std::ranges::sort(events, {}, [](const Event& e) { return std::tuple(e.time, e.begins); });
  return events;
}

void check_alone(const Lifetime& buffer, size_t i, int64_t offset, int64_t height,
                 int64_t alignment) {
  expect<InternalError>(offset >= 0 && offset % alignment == 0, kTag,
                        "buffer {} lies at {}, no multiple of {}", i, offset, alignment);
  expect<InternalError>(buffer.size <= height && offset <= height - buffer.size, kTag,
                        "buffer {} of {} bytes at {} ends above the height {}", i, buffer.size,
                        offset, height);
}

}  // namespace

void check_packing(std::span<const Lifetime> lifetimes, std::span<const int64_t> offsets,
                   int64_t height, int64_t alignment) {
  expect<InternalError>(lifetimes.size() == offsets.size(), kTag, "{} offsets for {} buffers",
                        offsets.size(), lifetimes.size());
  for (size_t i = 0; i < lifetimes.size(); ++i)
    check_alone(lifetimes[i], i, offsets[i], height, alignment);

  std::map<int64_t, size_t> live;  // buffers by offset; disjoint, or the check has failed
  auto refuse_overlap = [&](size_t a, size_t b) {
    expect<InternalError>(offsets[a] + lifetimes[a].size <= offsets[b], kTag,
                          "buffers {} and {} overlap: {} bytes at {} and {} bytes at {}", a, b,
                          lifetimes[a].size, offsets[a], lifetimes[b].size, offsets[b]);
  };
  for (const Event& event : events_of(lifetimes)) {
    if (!event.begins) {
      live.erase(offsets[event.buffer]);
      continue;
    }
    auto above = live.lower_bound(offsets[event.buffer]);
    if (above != live.end()) refuse_overlap(event.buffer, above->second);
    if (above != live.begin()) refuse_overlap(std::prev(above)->second, event.buffer);
    live.emplace_hint(above, offsets[event.buffer], event.buffer);
  }
}

}  // namespace brim::memory
