// Where a trace holds the most, on a trace made by hand.
#include "brim/memory/report/peak.h"

#include <doctest/doctest.h>

using namespace brim::memory;

namespace {

constexpr auto kActivations = static_cast<size_t>(Category::activations);
constexpr auto kParameters = static_cast<size_t>(Category::parameters);

// live: 64 | 192 | 320 | 320 | 192: buffer 3 takes the place that buffer 2 gave back.
Trace by_hand() {
  Trace trace;
  auto add = [&](int64_t bytes, Category category, int64_t death) {
    int64_t birth = static_cast<int64_t>(trace.buffers.size());
    trace.buffers.push_back(
        {.bytes = bytes, .category = category, .birth = birth, .death = death, .last_use = birth});
  };
  add(64, Category::parameters, 5);
  add(128, Category::activations, 4);
  add(128, Category::activations, 3);
  add(128, Category::scratch, 4);
  add(128, Category::activations, 5);
  trace.end = 5;
  trace.sections = {{.section = {SectionKind::first_micro_step, 8}, .begin = 1, .end = 4},
                    {.section = {SectionKind::update, 0}, .begin = 4, .end = 5}};
  trace.ops = {{.origin = {.op = "conv2d"}, .begin = 1, .end = 2},
               {.origin = {.op = "relu"}, .begin = 2, .end = 4},
               {.origin = {.op = "sgd"}, .begin = 4, .end = 5}};
  return trace;
}

}  // namespace

TEST_CASE("the first moment of most bytes, what is live then and what runs") {
  Trace trace = by_hand();
  Peak peak = peak_of(trace);
  CHECK(peak.time == 2);
  CHECK(peak.live == 320);
  CHECK(peak.live == trace.peak_live());
  CHECK(peak.by_category[kParameters] == 64);
  CHECK(peak.by_category[kActivations] == 256);
  CHECK(peak.buffers == std::vector<int64_t>{1, 2, 0});
  CHECK(trace.sections[peak.section.value()].section.kind == SectionKind::first_micro_step);
  CHECK(trace.ops[peak.op.value()].origin.op == "relu");
}

TEST_CASE("of a part of the trace; what was born before it counts") {
  Trace trace = by_hand();
  Peak peak = peak_of(trace, 4, 5);
  CHECK(peak.time == 4);
  CHECK(peak.live == 192);
  CHECK(peak.buffers == std::vector<int64_t>{4, 0});
  CHECK(peak_of(trace, 0, 2).live == 192);
}

TEST_CASE("of nothing") {
  CHECK(peak_of(Trace{}).live == 0);
  CHECK(peak_of(Trace{}).buffers.empty());
  CHECK_FALSE(peak_of(by_hand(), 0, 1).section.has_value());
}
