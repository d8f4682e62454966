// The page of a profile: a bar with each part as wide as its share, tables with every row, its
// cells and what they are sorted by, made safe; and a page of nothing is one.
#include "brim/memory/report/profile_page.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"

using namespace brim;
using namespace brim::memory;

namespace {

ProfilePage small_page() {
  return {
      .title = "Time of <a> net",
      .subtitle = {"batch 4"},
      .summary = {"a \"quoted\" line"},
      .parts = {{"forward, 1 ms", 0.25}, {"no <launch>", 0.75}},
      .modules = {.columns = {"Total ms", "GB/s"},
                  .rows = {{"layer<1>", 0.2, {{"4.000", 0.004}, {"1.5", 1.5}}, 0},
                           {"layer<1>.0", 0.1, {{"2.000", 0.002}, {"3.0", 3}}, 1},
                           {"fc", 0.05, {{"1.000", 0.001}, {"0.1", 0.125}}, 0}}},
      .ops = {.columns = {"Total ms"}, .rows = {{"conv2d backward", 0.25, {{"5.000", 0.005}}}}},
      .calls = {.columns = {"Excess ms"}, .rows = {{"fc linear", 0.1, {{"0.500", 0.0005}}}}}};
}

}  // namespace

TEST_CASE("parts, rows and cells stand in the page, made safe") {
  const std::string page = profile_page(small_page());
  const auto has = [&](const std::string& text) {
    CAPTURE(text);
    CHECK(page.find(text) != page.npos);
  };
  has("<h1>Time of &lt;a> net</h1>");
  has("<li>a &quot;quoted&quot; line</li>");
  has("flex-grow: 0.250000\" title=\"forward, 1 ms\"");
  has("flex-grow: 0.750000\" title=\"no &lt;launch>\"");
  has("<tr data-depth=\"1\"><th scope=\"row\" style=\"--depth: 1\" data-value=\"layer&lt;1>.0\">"
      "layer&lt;1>.0</th><td class=\"number share\" style=\"--share: 10.00%\" data-value=\"0.1\">"
      "10.0%</td><td class=\"number\" data-value=\"0.002\">2.000</td>"
      "<td class=\"number\" data-value=\"3\">3.0</td></tr>");
  has("<tr data-depth=\"0\"><th scope=\"row\" style=\"--depth: 0\" data-value=\"conv2d "
      "backward\">");
  has("<button type=\"button\" disabled>GB/s</button>");
  has("data-value=\"fc linear\">fc linear</th>");
  has("<td class=\"number\" data-value=\"0.0005\">0.500</td>");
  CHECK(page.find("{{") == page.npos);
}

TEST_CASE("it needs nothing beside it") {
  const std::string page = profile_page(small_page());
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.ends_with("</html>\n"));
  for (const char* text : {"http", "src=", "@import", "<link rel=\"stylesheet\""}) {
    CAPTURE(text);
    CHECK(page.find(text) == page.npos);
  }
  CHECK(page.find("function treeTable(") != page.npos);
}

TEST_CASE("a profile of nothing is a page too") {
  const std::string page = profile_page(ProfilePage{});
  CHECK(page.find("<h1>Time of a training</h1>") != page.npos);
  CHECK(page.find("{{") == page.npos);
}

TEST_CASE("rows that do not fit are refused") {
  ProfilePage cells = small_page(), depth = small_page(), share = small_page();
  cells.ops.rows[0].cells.pop_back();
  CHECK_THROWS_WITH_AS(profile_page(cells),
                       "profile_page: expected 1 cells for conv2d backward, got 0", ValueError);
  depth.modules.rows[1].depth = 2;
  CHECK_THROWS_WITH_AS(profile_page(depth),
                       "profile_page: expected a depth from 0 to 1 for layer<1>.0, got 2",
                       ValueError);
  share.parts[0].share = -1;
  CHECK_THROWS_WITH_AS(profile_page(share), "profile_page: expected finite shares from 0, got -1",
                       ValueError);
}
