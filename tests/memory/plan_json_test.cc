#include "brim/memory/plan/plan_json.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"
#include "brim/memory/plan/check_plan.h"
#include "brim/tests/support/memory_script.h"

using namespace brim;
using namespace brim::memory;
using brim::testing::record;
using brim::testing::ToyTraining;

namespace {

Plan toy_plan() {
  ToyTraining toy(3);
  return make_plan(record({toy.setup(), toy.step({8, 8}), toy.step({8, 8}), toy.evaluation(4)}),
                   {.identity = "toy \"3\", batch 16"});
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void check_refused(const std::string& text, const std::string& why) {
  CHECK_THROWS_WITH_AS(plan_from_json(text, toy_plan().identity), doctest::Contains(why.c_str()),
                       FileError);
}

void check_refused(const Plan& plan, const char* why) {
  CHECK_THROWS_WITH_AS(check_plan(plan), doctest::Contains(why), FileError);
  CHECK_THROWS_WITH_AS(plan_from_json(to_json(plan), plan.identity), doctest::Contains(why),
                       FileError);
}

}  // namespace

TEST_CASE("a plan comes back from its text as it was, and its text again, byte for byte") {
  Plan plan = toy_plan();
  std::string text = to_json(plan);
  Plan read = plan_from_json(text, plan.identity);
  CHECK(read == plan);
  CHECK(to_json(read) == text);
  Plan nothing = make_plan(record({}));
  CHECK(plan_from_json(to_json(nothing), "") == nothing);
}

TEST_CASE("a text of another question, version or format is refused with what was expected") {
  Plan plan = toy_plan();
  std::string text = to_json(plan);
  CHECK_THROWS_WITH_AS(
      plan_from_json(text, "another"),
      "plan: it answers another question: expected 'another', got 'toy \"3\", batch 16'",
      FileError);
  // Of as many settings only those that differ are named.
  for (const auto& [asked, why] : std::vector<std::pair<std::string, std::string>>{
           {"toy \"3\", batch 8", "expected 'batch 8', got 'batch 16'"},
           {"toy \"4\"; batch 8", "expected 'toy \"4\", batch 8', got 'toy \"3\", batch 16'"},
           {"toy \"3\",", "expected '', got 'batch 16'"},
           {"", "expected '', got 'toy \"3\", batch 16'"}})
    CHECK_THROWS_WITH_AS(plan_from_json(text, asked),
                         ("plan: it answers another question: " + why).c_str(), FileError);
  check_refused(replaced(text, "\"version\":1", "\"version\":2"), "expected version 1, got 2");
  check_refused(replaced(text, "brim plan", "brim pan"), "the format is not 'brim plan'");
  check_refused("[]", "there is no 'format'");
  check_refused("{\"format\":99e999}", "there is a number that no double holds");
  check_refused("", "ends early");
}

TEST_CASE("a text that is cut off anywhere is refused") {
  std::string text = to_json(toy_plan());
  for (size_t length = 0; length < text.size(); length += length < 200 ? 1 : 37)
    CHECK_THROWS_AS(plan_from_json(text.substr(0, length), toy_plan().identity), FileError);
}

TEST_CASE("values of the wrong kind and numbers out of their range are refused by name") {
  std::string text = to_json(toy_plan());
  check_refused(replaced(text, "\"kept_bytes\":", "\"kept_bytes\":-"), "'kept_bytes'");
  check_refused(replaced(text, "\"lower_bound\":", "\"lower_bound\":1e3,\"x\":"), "'lower_bound'");
  check_refused(replaced(text, "\"arena_bytes\":", "\"arena_bytes\":18446744073709551615,\"x\":"),
                "'arena_bytes'");
  check_refused(replaced(text, "\"sites\":[", "\"sites\":[[1,2,3],"), "'sites'");
  check_refused(replaced(text, "\"sites\":[", "\"sites\":[[\"a\",\"b\",\"c\"],"),
                "'c' is not known");
  check_refused(replaced(text, "\"kept\":[", "\"kept\":[[64],"), "expected 3 values");
  check_refused(replaced(text, "\"step\":false", "\"step\":0"), "'step'");
  check_refused(replaced(text, "\"requests\":[", "\"requests\":[[64,0,1,-1,0],"), "'requests'");
  check_refused(replaced(text, "\"first_micro_step\"", "\"third\""), "'third' is not known");
}

TEST_CASE("a plan that no arena can replay is refused, also from a text that is in order") {
  auto broken = [](auto&& breaks) {
    Plan plan = toy_plan();
    breaks(plan, plan.programs[1].sections[0].requests);
    return plan;
  };
  using Requests = std::vector<PlannedRequest>;
  check_refused(broken([](Plan&, Requests& r) { r[0].offset = r[1].offset; }), "still held");
  check_refused(broken([](Plan&, Requests& r) { r[1].offset += 1; }), "request 1");
  check_refused(broken([](Plan&, Requests& r) { r[1].bytes -= 1; }), "request 1");
  check_refused(broken([](Plan& p, Requests& r) { r[1].offset = p.arena_bytes; }), "outside of");
  check_refused(broken([](Plan&, Requests& r) { r[1].offset = 0; }), "outside of");
  check_refused(broken([](Plan&, Requests& r) { r[1].death = 1; }), "ends at 1");
  check_refused(broken([](Plan&, Requests& r) { r[1].death = 1 << 20; }), "ends at 1048576");
  check_refused(broken([](Plan&, Requests& r) { r[1].offset = -1; }), "request 1 has no place");
  check_refused(broken([](Plan& p, Requests&) { p.arena_bytes += 64; }), "programs end at");
  check_refused(broken([](Plan& p, Requests&) { p.kept_bytes -= 64; }), "what is kept takes");
  check_refused(broken([](Plan& p, Requests&) { p.kept[0].count = int64_t{1} << 59; }), "places");
  check_refused(broken([](Plan& p, Requests&) { p.kept.push_back(p.kept[0]); }), "two lists");
  check_refused(broken([](Plan& p, Requests&) { p.lower_bound += 64; }), "add up to");
  check_refused(broken([](Plan& p, Requests&) { p.programs.clear(); }), "no programs");
  check_refused(broken([](Plan& p, Requests&) { p.programs[1].sections.clear(); }), "no sections");
}

TEST_CASE("an identity that is not UTF-8 is written escaped, and the same one reads it") {
  Plan plan = toy_plan();
  plan.identity = "data caf\xE9";
  CHECK(plan_from_json(to_json(plan), plan.identity).identity == "data caf\\xE9");
  CHECK_THROWS_AS(plan_from_json(to_json(plan), "data caf\xE8"), FileError);
}
