// The page of exponents: every row is there with its cells, and its histogram has a bar for each
// exponent that has values, where the axis says that it is.
#include "brim/memory/report/numerics_page.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <regex>

#include "brim/base/error.h"

using namespace brim;
using namespace brim::memory;

namespace {

NumericsPage small_page() {
  return {.title = "Numbers of <a> net",
          .subtitle = {"batch 4"},
          .summary = {"nothing is lost", "a \"quoted\" line"},
          .columns = {"Zeros", "Lost"},
          .rows = {{.module = "conv1",
                    .op = "conv2d",
                    .values = "activations",
                    .first = -3,
                    .counts = {1, 0, 1000},
                    .cells = {"0", "1%"}},
                   {.module = "fc<1>",
                    .op = "linear",
                    .values = "gradients",
                    .first = -100,
                    .counts = {7},
                    .cells = {"2%", "0"},
                    .marked = true}}};
}

std::vector<std::string> paths_of(const std::string& page) {
  std::vector<std::string> paths;
  const std::regex path("<path d=\"([^\"]*)\"/>");
  for (std::sregex_iterator at(page.begin(), page.end(), path), end; at != end; ++at)
    paths.push_back((*at)[1]);
  return paths;
}

}  // namespace

TEST_CASE("rows have their names, cells and marks, made safe") {
  const std::string page = numerics_page(small_page());
  CHECK(page.find("<h1>Numbers of &lt;a> net</h1>") != page.npos);
  CHECK(page.find("<li>a &quot;quoted&quot; line</li>") != page.npos);
  CHECK(page.find("<tr><th scope=\"row\">conv1</th><td>conv2d</td><td>activations</td>") !=
        page.npos);
  CHECK(page.find("<tr class=\"marked\"><th scope=\"row\">fc&lt;1></th>") != page.npos);
  CHECK(page.find("<td class=\"number\">0</td><td class=\"number\">1%</td></tr>") != page.npos);
  CHECK(page.find("<th scope=\"col\" class=\"number\">Lost</th>") != page.npos);
  CHECK(page.find("{{") == page.npos);
}

TEST_CASE("a bar an exponent, the most common as high as the picture") {
  const auto paths = paths_of(numerics_page(small_page()));
  REQUIRE(paths.size() == 2);
  CHECK(std::ranges::count(paths[0], 'M') == 2);
  CHECK(paths[0].find("v-30.0") != std::string::npos);
  // -100 is beyond the axis, which ends at -60: its bar is the first.
  CHECK(paths[1] == "M0 30v-30.0h4v30.0z");
  // Two exponents apart, five pixels each.
  const auto x_of = [](const std::string& path) { return std::stoi(path.substr(1)); };
  CHECK(x_of(paths[0].substr(paths[0].rfind('M'))) - x_of(paths[0]) == 10);
}

TEST_CASE("bands show what the type does: less of it, wider bands") {
  const auto width_of = [](const std::string& page, const std::string& kind) {
    std::smatch match;
    REQUIRE(std::regex_search(
        page, match, std::regex("class=\"" + kind + "\" x=\"\\d+\" y=\"0\" width=\"(\\d+)\"")));
    return std::stoi(match[1]);
  };
  NumericsPage wide = small_page(), narrow = wide;
  narrow.smallest += 4;
  CHECK(width_of(numerics_page(narrow), "lost") == width_of(numerics_page(wide), "lost") + 20);
  // bfloat16 reaches beyond the axis: nothing to draw.
  wide.smallest = -133;
  wide.smallest_normal = -126;
  wide.largest = 127;
  CHECK(numerics_page(wide).find("<rect") == std::string::npos);
}

TEST_CASE("a page that does not fit together is refused") {
  NumericsPage page = small_page();
  page.rows[0].cells.pop_back();
  CHECK_THROWS_WITH_AS(numerics_page(page),
                       "numerics_page: expected 2 cells for conv2d in conv1, got 1", ValueError);
  page = small_page();
  page.rows[1].counts[0] = -1;
  CHECK_THROWS_WITH_AS(numerics_page(page), doctest::Contains("counts from 0, got -1"), ValueError);
}

TEST_CASE("a training without rows is a page without rows") {
  NumericsPage page = small_page();
  page.rows.clear();
  CHECK(numerics_page(page).find("<path") == std::string::npos);
}
