#include "brim/memory/report/trace_overlay.h"

#include <doctest/doctest.h>

#include "brim/tests/memory/report/small_trace.h"

using namespace brim::memory;
using namespace brim::memory::testing;

namespace {

using Bytes = std::vector<int64_t>;

}  // namespace

TEST_CASE("a trace laid over itself is equal at each of its requests") {
  TraceOverlay same = overlay(small_trace(), small_trace());
  REQUIRE(same.runs.size() == 3);
  CHECK(same.runs[0].begin == 0);
  CHECK(same.runs[0].live == Bytes{640, 1280});
  CHECK(same.runs[1].begin == 2);
  CHECK(same.runs[1].live == Bytes{2560, 5120, 5248, 5760});
  CHECK(same.runs[2].begin == 6);
  CHECK(same.runs[2].live == Bytes{1984});
  CHECK(same.compared == 7);
  CHECK(same.largest_difference == 0);
  CHECK(same.same_length);
}

TEST_CASE("one buffer that is larger shows as the difference, where it is live") {
  Trace larger = small_trace();
  larger.buffers[5].bytes += 192;
  TraceOverlay seen = overlay(small_trace(), larger);
  CHECK(seen.runs[1].live == Bytes{2560, 5120, 5248, 5952});
  CHECK(seen.largest_difference == 192);
  CHECK(overlay(larger, small_trace()).largest_difference == 192);
}

TEST_CASE("sections find theirs by kind and size though the programs begin differently") {
  Trace shorter;  // without the set-up's second buffer
  request(shorter, 640, Category::parameters);
  request(shorter, 1280, Category::input);
  request(shorter, 2560, Category::activations);
  shorter = finished(shorter);
  shorter.sections = {{.section = {SectionKind::first_micro_step, 4}, .begin = 1, .end = 3}};
  TraceOverlay seen = overlay(small_trace(), shorter);
  REQUIRE(seen.runs.size() == 2);  // nothing for the update
  CHECK(seen.runs[0].live == Bytes{640});
  CHECK(seen.runs[1].begin == 2);
  CHECK(seen.runs[1].live == Bytes{1920, 4480});
  CHECK(seen.compared == 3);
  CHECK(seen.largest_difference == 640);
  CHECK_FALSE(seen.same_length);

  shorter.sections[0].section.samples = 3;  // another size: only the set-up is left
  CHECK(overlay(small_trace(), shorter).compared == 1);
}

TEST_CASE("the second section of a kind is compared with the second") {
  Trace trace = small_trace();
  trace.sections = {{.section = {SectionKind::evaluation, 4}, .begin = 0, .end = 1},
                    {.section = {SectionKind::evaluation, 4}, .begin = 3, .end = 4}};
  TraceOverlay same = overlay(trace, trace);
  REQUIRE(same.runs.size() == 2);
  CHECK(same.runs[0].live == Bytes{640});
  CHECK(same.runs[1].live == Bytes{5120});
  CHECK(same.largest_difference == 0);
}
