#include "brim/memory/plan/plan.h"

#include <doctest/doctest.h>

#include <set>

#include "brim/base/error.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using brim::testing::record;
using brim::testing::ToyTraining;

namespace {

// Two buffers of the recording that are live at the same time and share bytes of the arena.
int64_t overlaps(const Trace& trace, const std::vector<int64_t>& offsets) {
  int64_t count = 0;
  for (size_t i = 0; i < offsets.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const TraceBuffer &a = trace.buffers[i], &b = trace.buffers[j];
      bool together = a.birth < b.death && b.birth < a.death;
      if (together && offsets[i] < offsets[j] + b.bytes && offsets[j] < offsets[i] + a.bytes)
        ++count;
    }
  return count;
}

}  // namespace

TEST_CASE("every buffer of a rehearsal has a place, and no two that live together share bytes") {
  ToyTraining toy(5);
  Trace trace = record({toy.setup(), toy.step({8}), toy.step({8}), toy.evaluation(16),
                        toy.evaluation(3), toy.step({5}), toy.step({8})});
  Plan plan = make_plan(trace);
  std::vector<int64_t> offsets = offsets_in(plan, trace);
  REQUIRE(offsets.size() == trace.buffers.size());
  for (size_t i = 0; i < offsets.size(); ++i) {
    CHECK(offsets[i] >= 0);
    CHECK(offsets[i] % 64 == 0);
    CHECK(offsets[i] + trace.buffers[i].bytes <= plan.arena_bytes);
  }
  CHECK(overlaps(trace, offsets) == 0);
}

TEST_CASE("programs: the set-up, each kind of step, each size of evaluation, once") {
  ToyTraining toy(4);
  Trace trace = record({toy.setup(), toy.step({8}), toy.step({8}), toy.evaluation(16),
                        toy.evaluation(16), toy.evaluation(3), toy.step({5}), toy.step({8})});
  Plan plan = make_plan(trace, {.identity = "toy"});
  CHECK(plan.identity == "toy");
  REQUIRE(plan.programs.size() == 5);
  CHECK(plan.programs[1].sections[0].section == Section{SectionKind::first_micro_step, 8});
  CHECK(plan.programs[2].sections[0].section == Section{SectionKind::evaluation, 16});
  CHECK(plan.programs[3].sections[0].section == Section{SectionKind::evaluation, 3});
  CHECK(plan.programs[4].sections[0].section == Section{SectionKind::first_micro_step, 5});
  for (size_t i : {1u, 4u}) {
    CHECK(plan.programs[i].step);
    REQUIRE(plan.programs[i].sections.size() == 2);
    CHECK(plan.programs[i].sections[1].section.kind == SectionKind::update);
  }
}

TEST_CASE("a plan does not grow with the number of steps, nor with the micro-steps of one") {
  auto planned = [](int steps, const std::vector<int64_t>& parts) {
    ToyTraining toy(4);
    std::vector<brim::testing::Script> scripts{toy.setup()};
    for (int i = 0; i < steps; ++i) scripts.push_back(toy.step(parts));
    return make_plan(record(scripts));
  };
  CHECK(planned(2, {8}) == planned(6, {8}));
  Plan three = planned(2, {8, 8, 8}), seven = planned(2, {8, 8, 8, 8, 8, 8, 8});
  CHECK(three == seven);
  REQUIRE(three.programs[1].sections.size() == 3);
  CHECK(three.programs[1].sections[1].section == Section{SectionKind::micro_step, 8});
}

TEST_CASE("what lives across programs is at the bottom, programs share what is above") {
  ToyTraining toy(5);
  Trace trace = record({toy.setup(), toy.step({8}), toy.evaluation(16), toy.step({8})});
  Plan plan = make_plan(trace);
  std::vector<int64_t> offsets = offsets_in(plan, trace);
  int64_t kept = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    Category category = trace.buffers[i].category;
    bool lives_on = category == Category::parameters || category == Category::optimizer;
    CHECK((offsets[i] < plan.kept_bytes) == lives_on);
    if (lives_on) kept += trace.buffers[i].bytes;
  }
  CHECK(plan.kept_bytes == kept);
  int64_t highest = 0;
  for (const PlannedProgram& program : plan.programs) highest = std::max(highest, program.top);
  CHECK(plan.arena_bytes == highest);
}

TEST_CASE("the lower bound is the largest live sum, split by category, and sections have peaks") {
  ToyTraining toy(5);
  Trace trace = record({toy.setup(), toy.step({8, 8}), toy.evaluation(4), toy.step({8, 8})});
  Plan plan = make_plan(trace);
  CHECK(plan.lower_bound == trace.peak_live());
  int64_t sum = 0;
  for (int64_t bytes : plan.at_peak) sum += bytes;
  CHECK(sum == plan.lower_bound);
  CHECK(plan.arena_bytes >= plan.lower_bound);
  CHECK(plan.gap() ==
        doctest::Approx(
            static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.lower_bound) - 1));
  int64_t largest = 0;
  for (const PlannedProgram& program : plan.programs)
    for (const PlannedSection& section : program.sections)
      largest = std::max(largest, section.peak_live);
  CHECK(largest == plan.lower_bound);
  const auto& sections = plan.programs[1].sections;
  CHECK(sections[1].peak_live > sections[0].peak_live);  // gradients are there from its beginning
  CHECK(sections[2].peak_live < sections[0].peak_live);
}

TEST_CASE("arenas of toy programs have no gap to the lower bound") {
  for (int64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    ToyTraining toy(12, seed);
    Trace trace = record({toy.setup(), toy.step({16, 16}), toy.step({16, 16}), toy.step({16, 7}),
                          toy.evaluation(20), toy.step({5})});
    Plan plan = make_plan(trace);
    CHECK(plan.arena_bytes == plan.lower_bound);
  }
}
