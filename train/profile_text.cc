#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "brim/base/bytes.h"
#include "brim/core/slow_launches.h"
#include "brim/memory/report/profile_page.h"
#include "brim/train/device_speed.h"
#include "brim/train/profile_report.h"

namespace brim {
namespace {

using memory::Phase;

constexpr Phase kInOrder[] = {Phase::forward, Phase::backward, Phase::recompute, Phase::update};

size_t at(Phase phase) { return static_cast<size_t>(phase); }

std::string name_of(const std::string& module) {
  return module.empty() ? "(outside of modules)" : module;
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }
std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

double share_of(const ProfileReport& report, double seconds) {
  return report.seconds() > 0 ? seconds / report.seconds() : 0;
}

double giga_per_second(double amount, const LaunchCost& cost) {
  return cost.seconds > 0 ? amount / cost.seconds / 1e9 : 0;
}
double traffic_of(const LaunchCost& cost) {
  return giga_per_second(static_cast<double>(cost.bytes_moved), cost);
}
double arithmetic_of(const LaunchCost& cost) { return giga_per_second(cost.flops, cost); }

/// "forward 12.300 ms (40.0%)" of each phase that there is.
std::vector<std::string> phases_of(const ProfileReport& report) {
  std::vector<std::string> texts;
  const auto seconds = by_phase(report);
  for (Phase phase : kInOrder)
    if (seconds[at(phase)] > 0)
      texts.push_back(fmt::format("{} {} ms ({})", memory::to_string(phase),
                                  milliseconds(seconds[at(phase)]),
                                  percent(share_of(report, seconds[at(phase)]))));
  return texts;
}

std::string line_of(const std::string& name, size_t width, const std::vector<std::string>& cells) {
  std::string line = fmt::format("{:<{}}", name, width);
  for (const std::string& cell : cells) line += fmt::format("  {:>10}", cell);
  return line + '\n';
}

/// What a column of a table has of a cost: as text, and as a number to sort by.
struct Column {
  const char* name;
  std::function<std::string(const LaunchCost&)> text;
  std::function<double(const LaunchCost&)> value;
};

Column milliseconds_column(const char* name, double (*seconds_of)(const LaunchCost&)) {
  return {name, [=](const LaunchCost& cost) { return milliseconds(seconds_of(cost)); }, seconds_of};
}

Column rate_column(const char* name, double (*rate_of)(const LaunchCost&)) {
  return {name, [=](const LaunchCost& cost) { return fmt::format("{:.1f}", rate_of(cost)); },
          rate_of};
}

double least_of(const LaunchCost& cost) { return cost.least_seconds; }
double excess_of(const LaunchCost& cost) { return cost.excess(); }

/// Of every table, after the times.
std::vector<Column> work_columns(const ProfileReport& report) {
  std::vector<Column> columns;
  if (report.peak) {
    columns.push_back(milliseconds_column("At peak ms", least_of));
    columns.push_back(milliseconds_column("Excess ms", excess_of));
  }
  columns.push_back({"Launches",
                     [](const LaunchCost& cost) { return std::to_string(cost.launches); },
                     [](const LaunchCost& cost) { return static_cast<double>(cost.launches); }});
  columns.push_back({"Moved", [](const LaunchCost& cost) { return format_bytes(cost.bytes_moved); },
                     [](const LaunchCost& cost) { return static_cast<double>(cost.bytes_moved); }});
  columns.push_back(rate_column("GB/s", traffic_of));
  columns.push_back({"GFLOP",
                     [](const LaunchCost& cost) { return fmt::format("{:.3f}", cost.flops / 1e9); },
                     [](const LaunchCost& cost) { return cost.flops; }});
  columns.push_back(rate_column("GFLOP/s", arithmetic_of));
  return columns;
}

using Rows = std::vector<std::pair<std::string, LaunchCost>>;

std::string text_table(const ProfileReport& report, const std::string& what, size_t most,
                       const Rows& rows) {
  const std::vector<Column> columns = work_columns(report);
  size_t width = what.size();
  const size_t shown = std::min(most, rows.size());
  for (size_t i = 0; i < shown; ++i) width = std::max(width, rows[i].first.size());
  std::vector<std::string> cells{"ms", "Share"};
  for (const Column& column : columns) cells.push_back(column.name);
  std::string table = line_of(what, width, cells);
  for (size_t i = 0; i < shown; ++i) {
    const LaunchCost& cost = rows[i].second;
    cells = {milliseconds(cost.seconds), percent(share_of(report, cost.seconds))};
    for (const Column& column : columns) cells.push_back(column.text(cost));
    table += line_of(rows[i].first, width, cells);
  }
  if (shown < rows.size())
    table += fmt::format("and {} with no more {}\n", rows.size() - shown,
                         report.peak ? "excess" : "time");
  return table;
}

memory::ProfileCell milliseconds_cell(double seconds) { return {milliseconds(seconds), seconds}; }

/// What all tables of the page end with.
void add_work(const ProfileReport& report, memory::ProfileRow& row, const LaunchCost& cost) {
  for (const Column& column : work_columns(report))
    row.cells.push_back({column.text(cost), column.value(cost)});
}

void add_work_columns(const ProfileReport& report, std::vector<std::string>& columns) {
  for (const Column& column : work_columns(report)) columns.push_back(column.name);
}

memory::ProfileTable module_table(const ProfileReport& report) {
  memory::ProfileTable table{.columns = {"Total ms"}};
  const auto all = by_phase(report);
  for (Phase phase : kInOrder)
    if (all[at(phase)] > 0) table.columns.push_back(fmt::format("{} ms", memory::to_string(phase)));
  add_work_columns(report, table.columns);
  for (const ModuleCost& module : by_module(report)) {
    memory::ProfileRow row{.name = name_of(module.module),
                           .share = share_of(report, module.cost.seconds),
                           .cells = {milliseconds_cell(module.cost.seconds)},
                           .depth = module.depth};
    for (Phase phase : kInOrder)
      if (all[at(phase)] > 0) row.cells.push_back(milliseconds_cell(module.seconds[at(phase)]));
    add_work(report, row, module.cost);
    table.rows.push_back(std::move(row));
  }
  return table;
}

memory::ProfileTable flat_table(const ProfileReport& report, const Rows& rows) {
  memory::ProfileTable table{.columns = {"Total ms"}};
  add_work_columns(report, table.columns);
  for (const auto& [name, cost] : rows) {
    table.rows.push_back({.name = name,
                          .share = share_of(report, cost.seconds),
                          .cells = {milliseconds_cell(cost.seconds)}});
    add_work(report, table.rows.back(), cost);
  }
  return table;
}

Rows module_rows(const ProfileReport& report) {
  Rows rows;
  for (const OpCost& module : by_layer(report))
    rows.emplace_back(name_of(module.module), module.cost);
  return rows;
}

Rows op_rows(const ProfileReport& report) {
  Rows rows;
  for (const OpCost& op : by_op(report)) rows.emplace_back(run_name(op.op, op.phase), op.cost);
  return rows;
}

Rows call_rows(const ProfileReport& report) {
  Rows rows;
  for (const OpCost& op : by_call(report))
    rows.emplace_back(fmt::format("{} {}", name_of(op.module), run_name(op.op, op.phase)), op.cost);
  return rows;
}

std::vector<memory::ProfilePart> parts_of(const ProfileReport& report) {
  std::vector<memory::ProfilePart> parts;
  if (report.steps.empty()) return parts;
  const auto seconds = by_phase(report);
  const auto add = [&](const char* name, double took) {
    parts.push_back({fmt::format("{}, {} ms", name, milliseconds(took)), share_of(report, took)});
  };
  for (Phase phase : kInOrder) add(memory::to_string(phase), seconds[at(phase)]);
  add("no launch", report.outside);
  return parts;
}

}  // namespace

std::vector<std::string> summary_of(const ProfileReport& report) {
  if (report.steps.empty())
    return {
        "no update was profiled: the first ones warm up, and what is watched or skipped does "
        "not count"};
  const LaunchCost& all = report.launched;
  std::vector<std::string> lines{
      fmt::format(
          "updates {}{}: {} ms where everything takes its median, {} ms by the clock",
          fmt::join(report.steps, ", "),
          report.unlike == 0 ? "" : fmt::format(" (and {} of other work, left out)", report.unlike),
          milliseconds(report.seconds()), milliseconds(report.clocked)),
      fmt::format("{}; {} ms ({}) in no launch", fmt::join(phases_of(report), ", "),
                  milliseconds(report.outside), percent(share_of(report, report.outside))),
      fmt::format("{} launches moved {} at {:.1f} GB/s and computed {:.3f} GFLOP at {:.1f} GFLOP/s",
                  all.launches, format_bytes(all.bytes_moved), traffic_of(all), all.flops / 1e9,
                  arithmetic_of(all))};
  if (report.peak)
    lines.push_back(
        fmt::format("at this machine's peak, {:.1f} GFLOP/s ({:.1f} in halves) and {:.1f} GB/s, "
                    "they take {} ms: "
                    "{} of the update",
                    report.peak->flops_per_second / 1e9, report.peak->half_flops_per_second / 1e9,
                    report.peak->bytes_per_second / 1e9, milliseconds(all.least_seconds),
                    percent(share_of(report, all.least_seconds))));
  if (const std::string slow = to_string(slow_launches()); !slow.empty())
    lines.push_back("slower on this GPU than they might be, in the program so far: " + slow);
  return lines;
}

std::string table_of(const ProfileReport& report, size_t most) {
  if (report.steps.empty()) return "";
  return text_table(report, "module", most, module_rows(report)) +
         text_table(report, "op", most, op_rows(report)) +
         text_table(report, "op of a module", most, call_rows(report));
}

std::string profile_page(const ProfileReport& report, const std::vector<std::string>& about) {
  return memory::profile_page({.subtitle = about,
                               .summary = summary_of(report),
                               .parts = parts_of(report),
                               .modules = module_table(report),
                               .ops = flat_table(report, op_rows(report)),
                               .calls = flat_table(report, call_rows(report))});
}

}  // namespace brim
