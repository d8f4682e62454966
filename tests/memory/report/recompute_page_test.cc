// The page of bytes against time: its numbers are those that it was given, in the table, in the
// data and where points lie.
#include "brim/memory/report/recompute_page.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "brim/base/error.h"

using namespace brim;
using namespace brim::memory;
using nlohmann::json;

namespace {

constexpr int64_t kMiB = 1 << 20;

RecomputePage small_page() {
  return {.title = "Bytes against time: a net",
          .subtitle = {"batch 4", "arena"},
          .plans = {{.name = "keep everything", .bytes = 100 * kMiB},
                    {.bytes = 70 * kMiB, .extra_time = 0.01, .bound = 0.008, .rebuilt = 3},
                    {.bytes = 50 * kMiB, .extra_time = 0.04, .bound = 0.03, .rebuilt = 1200},
                    {.name = "least",
                     .bytes = 40 * kMiB,
                     .extra_time = 0.3,
                     .bound = 0.05,
                     .rebuilt = 2000}},
          .beside = {{.name = "free", .bytes = 75 * kMiB, .extra_time = 0.015, .rebuilt = 20},
                     {.name = "segments=3", .bytes = 60 * kMiB, .extra_time = 0.25, .rebuilt = 30}},
          .budget = 64 * kMiB};
}

json data_of(const std::string& page) {
  std::smatch match;
  REQUIRE(std::regex_search(
      page, match, std::regex(R"re(<script type="application/json" id="data">(.*)</script>)re")));
  return json::parse(match[1].str());
}

/// Across and up, of the shapes of a class that say what they are.
std::vector<std::pair<double, double>> places(const std::string& text, const std::string& pattern) {
  std::vector<std::pair<double, double>> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
  return found;
}

std::vector<std::string> texts(const std::string& text, const std::string& pattern) {
  std::vector<std::string> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.push_back((*it)[1]);
  return found;
}

const std::string kCircle =
    R"re(<circle class="plan" cx="([0-9.]+)" cy="([0-9.]+)" r="[0-9.]+"><title>)re";
const std::string kDiamond = R"re(<path class="way" d="M([0-9.]+) ([0-9.]+)m[^"]*"><title>)re";

}  // namespace

TEST_CASE("the data of the page has every way with its numbers, most bytes first") {
  const RecomputePage page = small_page();
  const json data = data_of(recompute_page(page));
  CHECK(data["title"] == page.title);
  CHECK(data["budget"] == 64 * kMiB);
  std::vector<int64_t> order;
  for (const json& way : data["ways"]) order.push_back(way["bytes"].get<int64_t>() / kMiB);
  CHECK(order == std::vector<int64_t>{100, 75, 70, 60, 50, 40});
  auto check_way = [&](const DrawnWay& way, bool is_plan) {
    auto found = std::ranges::find(data["ways"], json(way.bytes),
                                   [](const json& each) { return each["bytes"]; });
    REQUIRE(found != data["ways"].end());
    CHECK((*found)["name"] == way.name);
    CHECK((*found)["is_plan"] == is_plan);
    CHECK((*found)["extra_time"] == way.extra_time);
    CHECK((*found)["rebuilt"] == way.rebuilt);
    CHECK((*found)["share"] == doctest::Approx(static_cast<double>(way.bytes) / (100 * kMiB)));
    CHECK(found->contains("bound") == is_plan);
    if (is_plan) CHECK((*found)["bound"] == way.bound);
  };
  for (const DrawnWay& plan : page.plans) check_way(plan, true);
  for (const DrawnWay& way : page.beside) check_way(way, false);
}

TEST_CASE("people read the same in the table") {
  const std::string page = recompute_page(small_page());
  CHECK(texts(page, R"re(<th scope="row">([^<]*)</th>)re") ==
        std::vector<std::string>{"keep everything", "free", "plan", "segments=3", "plan", "least"});
  const auto cells = texts(page, R"re(<td class="number">([^<]*)</td>)re");
  REQUIRE(cells.size() == 6 * 6);
  CHECK(std::vector<std::string>(cells.begin() + 24, cells.begin() + 30) ==
        std::vector<std::string>{"50.0", "52,428,800", "50.0%", "4.00%", "3.00%", "1,200"});
  // No bound is known of a way beside the plans.
  CHECK(std::vector<std::string>(cells.begin() + 6, cells.begin() + 12) ==
        std::vector<std::string>{"75.0", "78,643,200", "75.0%", "1.50%", "", "20"});
}

TEST_CASE("points lie where their numbers say") {
  const RecomputePage page = small_page();
  for (const std::string& drawn : {recompute_page(page), recompute_picture(page)}) {
    const auto circles = places(drawn, kCircle), diamonds = places(drawn, kDiamond);
    REQUIRE(circles.size() == page.plans.size());
    REQUIRE(diamonds.size() == page.beside.size());
    // The scale is that of the first and the last plan.
    const DrawnWay &first = page.plans.front(), &last = page.plans.back();
    auto check_place = [&](const DrawnWay& way, std::pair<double, double> place) {
      const double across = static_cast<double>(way.bytes - last.bytes) /
                            static_cast<double>(first.bytes - last.bytes);
      const double up = way.extra_time / last.extra_time;
      CHECK(std::abs(place.first - std::lerp(circles.back().first, circles.front().first, across)) <
            0.02);
      CHECK(std::abs(place.second - std::lerp(circles.front().second, circles.back().second, up)) <
            0.02);
    };
    for (size_t i = 0; i < circles.size(); ++i) check_place(page.plans[i], circles[i]);
    for (size_t i = 0; i < diamonds.size(); ++i) check_place(page.beside[i], diamonds[i]);
  }
}

TEST_CASE("named ways, the bound and the budget are drawn; a budget beyond the picture is not") {
  RecomputePage page = small_page();
  const std::string drawn = recompute_picture(page);
  CHECK(texts(drawn, R"re(<text class="name"[^>]*>([^<]*)</text>)re") ==
        std::vector<std::string>{"keep everything", "least", "free", "segments=3"});
  CHECK(drawn.find("budget 64 MiB") != drawn.npos);
  CHECK(drawn.find("<polyline class=\"bound\"") != drawn.npos);
  CHECK(drawn.find("50 MiB at 4.0% more time, 1200 values made again") != drawn.npos);
  CHECK(drawn.find("other ways") != drawn.npos);
  page.budget = 1000 * kMiB;
  page.beside.clear();
  const std::string other = recompute_picture(page);
  CHECK(other.find("budget 1000") == other.npos);
  CHECK(other.find("other ways") == other.npos);
}

TEST_CASE("names of points that lie together do not lie on each other") {
  RecomputePage page = small_page();
  page.beside = {{.name = "one way", .bytes = 70 * kMiB, .extra_time = 0.01},
                 {.name = "another", .bytes = 70 * kMiB, .extra_time = 0.011},
                 {.name = "a third", .bytes = 71 * kMiB, .extra_time = 0.01}};
  const auto found =
      places(recompute_picture(page), R"re(<text class="name" x="([0-9.]+)" y="([0-9.]+)">)re");
  REQUIRE(found.size() == 5);
  for (size_t i = 0; i < found.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      CHECK((std::abs(found[i].first - found[k].first) > 40 ||
             std::abs(found[i].second - found[k].second) > 12));
}

TEST_CASE("page and picture are one file each, and names cannot leave their place") {
  RecomputePage page = small_page();
  page.title = page.beside[0].name = "</script><b>\"&{{rows}}";
  for (const std::string& text : {recompute_page(page), recompute_picture(page)}) {
    CHECK(text.find("<b>") == text.npos);
    CHECK(text.find("&lt;/script>&lt;b>&quot;&amp;{{rows}}") != text.npos);
    const std::regex reference(R"re((src|href|action)="([^"]*)"|@import|url\()re");
    for (std::sregex_iterator it(text.begin(), text.end(), reference), end; it != end; ++it)
      CHECK(it->str() == R"(href="data:,")");
  }
  CHECK(data_of(recompute_page(page))["title"] == page.title);
  const std::string picture = recompute_picture(page);
  CHECK(picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(picture.find("prefers-color-scheme: dark") != picture.npos);
  CHECK(picture.ends_with("</svg>\n"));
}

TEST_CASE("what is no curve is refused") {
  auto refused = [](const char* text, auto&& change) {
    RecomputePage page = small_page();
    change(page);
    CHECK_THROWS_WITH_AS(recompute_page(page), text, ValueError);
    CHECK_THROWS_WITH_AS(recompute_picture(page), text, ValueError);
  };
  refused("recompute_page: expected plans, got none", [](auto& page) { page.plans.clear(); });
  refused("recompute_page: expected bytes above 0, got 0",
          [](auto& page) { page.beside[0].bytes = 0; });
  refused("recompute_page: expected finite time from 0, got -0.5",
          [](auto& page) { page.plans[1].bound = -0.5; });
  refused("recompute_page: expected finite time from 0, got inf",
          [](auto& page) { page.plans[3].extra_time = std::numeric_limits<double>::infinity(); });
  refused(
      "recompute_page: expected plans with falling bytes and rising time, got 73400320 bytes at "
      "0.01 after 52428800 at 0.04",
      [](auto& page) { std::swap(page.plans[1], page.plans[2]); });
}
