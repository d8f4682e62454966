#include "brim/memory/report/recompute_page.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/base/json_text.h"
#include "brim/memory/report/markup.h"
#include "brim/memory/report/page.h"
#include "brim/memory/report/recompute_drawing.h"

namespace brim::memory {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTag = "recompute_page";

void check_way(const DrawnWay& way) {
  expect<ValueError>(way.bytes > 0, kTag, "expected bytes above 0, got {}", way.bytes);
  for (double share : {way.extra_time, way.bound})
    expect<ValueError>(std::isfinite(share) && share >= 0, kTag,
                       "expected finite time from 0, got {}", share);
}

void check_page(const RecomputePage& page) {
  expect<ValueError>(!page.plans.empty(), kTag, "expected plans, got none");
  for (const auto* ways : {&page.plans, &page.beside})
    for (const DrawnWay& way : *ways) check_way(way);
  for (size_t i = 1; i < page.plans.size(); ++i) {
    const DrawnWay &before = page.plans[i - 1], &plan = page.plans[i];
    expect<ValueError>(plan.bytes < before.bytes && plan.extra_time > before.extra_time, kTag,
                       "expected plans with falling bytes and rising time, got {} bytes at {} "
                       "after {} at {}",
                       plan.bytes, plan.extra_time, before.bytes, before.extra_time);
  }
}

double share_of(const RecomputePage& page, const DrawnWay& way) {
  return static_cast<double>(way.bytes) / static_cast<double>(page.plans.front().bytes);
}

/// As the table has them, most bytes first.
struct Row {
  const DrawnWay* way;
  bool is_plan;
};
std::vector<Row> rows_of(const RecomputePage& page) {
  std::vector<Row> rows;
  for (const DrawnWay& plan : page.plans) rows.push_back({&plan, true});
  for (const DrawnWay& way : page.beside) rows.push_back({&way, false});
  std::ranges::stable_sort(rows, std::greater(), [](const Row& row) { return row.way->bytes; });
  return rows;
}

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string table_of(const RecomputePage& page) {
  std::string table;
  for (const Row& row : rows_of(page)) {
    const DrawnWay& way = *row.way;
    const std::string name = way.name.empty() ? "plan" : escaped(way.name);
    const std::string bound = row.is_plan ? fmt::format("{:.2f}%", 100 * way.bound) : "";
    table += fmt::format("<tr><th scope=\"row\">{}</th>", name);
    for (const std::string& cell :
         {fmt::format("{:.1f}", static_cast<double>(way.bytes) / (1 << 20)), grouped(way.bytes),
          fmt::format("{:.1f}%", 100 * share_of(page, way)),
          fmt::format("{:.2f}%", 100 * way.extra_time), bound, grouped(way.rebuilt)})
      table += fmt::format("<td class=\"number\">{}</td>", cell);
    table += "</tr>\n";
  }
  return table;
}

std::string data_of(const RecomputePage& page) {
  Json ways = Json::array();
  for (const Row& row : rows_of(page)) {
    const DrawnWay& way = *row.way;
    ways.push_back({{"name", way.name},
                    {"is_plan", row.is_plan},
                    {"bytes", way.bytes},
                    {"share", share_of(page, way)},
                    {"extra_time", way.extra_time},
                    {"rebuilt", way.rebuilt}});
    if (row.is_plan) ways.back()["bound"] = way.bound;
  }
  Json data = {{"title", page.title}, {"budget", page.budget}, {"ways", ways}};
  return for_script(json_text(std::move(data)));
}

/// What a reader who does not see the picture is told of it.
std::string label_of(const RecomputePage& page) {
  const DrawnWay &all = page.plans.front(), &least = page.plans.back();
  return escaped(fmt::format("{}: from {} with everything kept to {} at {:.1f}% more time",
                             page.title, format_bytes(all.bytes), format_bytes(least.bytes),
                             100 * least.extra_time));
}

}  // namespace

std::string recompute_page(const RecomputePage& page) {
  check_page(page);
  return filled(kRecomputePage,
                {{"{{title}}", escaped(page.title)},
                 {"{{subtitle}}", escaped(fmt::format("{}", fmt::join(page.subtitle, "\n")))},
                 {"{{view}}", recompute_view_box()},
                 {"{{label}}", label_of(page)},
                 {"{{drawing}}", recompute_drawing(page)},
                 {"{{rows}}", table_of(page)},
                 {"{{data}}", data_of(page)}});
}

std::string recompute_picture(const RecomputePage& page) {
  check_page(page);
  return filled(kRecomputePicture, {{"{{title}}", escaped(page.title)},
                                    {"{{view}}", recompute_view_box()},
                                    {"{{label}}", label_of(page)},
                                    {"{{drawing}}", recompute_drawing(page)}});
}

}  // namespace brim::memory
