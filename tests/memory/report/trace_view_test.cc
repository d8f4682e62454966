#include "brim/memory/report/trace_view.h"

#include <doctest/doctest.h>

#include "brim/tests/memory/report/small_trace.h"

using namespace brim::memory;
using namespace brim::memory::testing;

namespace {

/// "label begin-end", indented by depth.
std::vector<std::string> lines(const std::vector<TraceView>& views) {
  std::vector<std::string> all;
  for (const TraceView& view : views)
    all.push_back(std::string(static_cast<size_t>(view.depth), ' ') + view.label + " " +
                  std::to_string(view.begin) + "-" + std::to_string(view.end));
  return all;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("views are the whole, the set-up, each step and its sections") {
  CHECK(lines(views_of(small_trace())) == Lines{"Whole trace 0-7", " Set-up 0-2", " Step 0 2-7",
                                                "  first micro-step of 4 2-6", "  update 6-7"});
}

TEST_CASE("a section that asks for nothing has no view, and a step of one section is one view") {
  Trace trace = small_trace();
  trace.sections[0].end = 7;
  trace.sections[1].begin = 7;
  CHECK(lines(views_of(trace)) ==
        Lines{"Whole trace 0-7", " Set-up 0-2", " Step 0: first micro-step of 4 2-7"});
}

TEST_CASE("an evaluation between steps is a view of its own, and steps are told apart") {
  Trace trace = small_trace();
  trace.sections = {
      {.section = {SectionKind::first_micro_step, 4}, .begin = 0, .end = 2, .step = 0},
      {.section = {SectionKind::first_micro_step, 4}, .begin = 2, .end = 4, .step = 1},
      {.section = {SectionKind::evaluation, 9}, .begin = 4, .end = 7}};
  CHECK(lines(views_of(trace)) == Lines{"Whole trace 0-7", " Step 0: first micro-step of 4 0-2",
                                        " Step 1: first micro-step of 4 2-4",
                                        " Evaluation of 9 4-7"});
}

TEST_CASE("a trace without sections is one view, an empty one too") {
  Trace trace = small_trace();
  trace.sections.clear();
  CHECK(lines(views_of(trace)) == Lines{"Whole trace 0-7"});
  CHECK(lines(views_of({})) == Lines{"Whole trace 0-0"});
}

TEST_CASE("a time is shown in its step, and in the whole where it is in none") {
  Trace trace = small_trace();
  const std::vector<TraceView> views = views_of(trace);
  CHECK(views[view_at(views, kSmallPeakTime)].label == "Step 0");
  CHECK(views[view_at(views, 0)].label == "Set-up");
  trace.sections.clear();
  CHECK(view_at(views_of(trace), kSmallPeakTime) == 0);
}
