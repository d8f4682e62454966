#include "brim/train/numerics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "brim/memory/report/numerics_page.h"
#include "brim/ops/autocast.h"

namespace brim {
namespace {

constexpr double kMuch = 0.01;  // lost of an op's values: then it wants float32

bool is_scaled(const NumericsWatch& watch) {
  return watch.least_scale() != 1 || watch.most_scale() != 1;
}

/// The exponent of the loss scale.
int best_shift(const ExponentHistogram& gradients, const FloatRange& range) {
  const std::optional<int> highest = gradients.highest();
  if (!highest || gradients.not_finite() > 0) return 0;
  constexpr int kMost = 24;  // gradients that small are none
  return std::clamp(range.largest - 1 - *highest, 0, kMost);
}

/// Autocast leaves the parameters of norms as they are, and with them their gradients.
bool stays_float32(const WatchedValues& values) {
  return values.kind == WatchedKind::parameter_gradients &&
         autocast_rule(values.op) == AutocastRule::like_first;
}

/// Whether autocast computes it in float32 as it is. What goes on to a half is cast then.
bool is_float32_anyway(const WatchedValues& values) {
  return stays_float32(values) || autocast_rule(values.op) == AutocastRule::float32;
}

std::string percent(double share) {
  if (share == 0) return "0";
  if (share < 0.0001) return "<0.01%";
  return fmt::format("{:.2f}%", 100 * share);
}

double zeros_of(const ExponentHistogram& exponents) {
  const int64_t all = exponents.total();
  return all == 0 ? 0 : static_cast<double>(exponents.zeros()) / static_cast<double>(all);
}

std::string text_of_range(const ExponentHistogram& exponents) {
  const std::optional<int> low = exponents.lowest();
  return low ? fmt::format("2^{} to 2^{}", *low, *exponents.highest()) : "none but 0";
}

std::vector<std::string> cells_of(const NumericsRow& row) {
  const ExponentHistogram& exponents = row.values->exponents;
  return {text_of_range(exponents),      percent(zeros_of(exponents)), percent(row.shares.lost),
          percent(row.shares.subnormal), percent(row.shares.near),     percent(row.shares.over)};
}

std::string name_of(const std::string& module) { return module.empty() ? "(the root)" : module; }

std::vector<const NumericsRow*> worst_first(const NumericsReport& report) {
  std::vector<const NumericsRow*> rows;
  for (const NumericsRow& row : report.rows) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::greater(), [](const NumericsRow* row) {
    return std::tuple(row->needs_float32, row->shares.lost + row->shares.over,
                      row->shares.subnormal);
  });
  return rows;
}

std::string steps_of(const NumericsWatch& watch) {
  const std::vector<int64_t>& steps = watch.steps();
  if (steps.size() <= 3) return fmt::format("{}", fmt::join(steps, ", "));
  return fmt::format("{}, {} ... {}, {} in all", steps[0], steps[1], steps.back(), steps.size());
}

std::string skipped_of(const Skipped& skipped) {
  return fmt::format("update {} was skipped, with the loss times {}: {}", skipped.step,
                     skipped.scale, skipped.text);
}

void add_skipped(std::vector<std::string>& lines, const NumericsWatch& watch) {
  constexpr size_t kMost = 5;
  const auto& skipped = watch.skipped();
  for (size_t i = 0; i < std::min(kMost, skipped.size()); ++i)
    lines.push_back(skipped_of(skipped[i]));
  if (skipped.size() > kMost)
    lines.push_back(fmt::format("and {} more updates were skipped", skipped.size() - kMost));
}

void add_scale(std::vector<std::string>& lines, const NumericsReport& report,
               const NumericsWatch& watch) {
  if (is_scaled(watch))
    lines.push_back(fmt::format("gradients are those of the loss times {} to {}",
                                watch.least_scale(), watch.most_scale()));
  if (report.loss_scale == 1) return;
  lines.push_back(fmt::format(
      "a loss scale of {} is the largest that leaves room: {} of the gradients become 0 then, {} "
      "are subnormal",
      report.loss_scale, percent(report.scaled_gradients.lost),
      percent(report.scaled_gradients.subnormal)));
}

void add_needs(std::vector<std::string>& lines, const NumericsReport& report) {
  std::vector<std::string> names;
  for (const NumericsRow* row : worst_first(report))
    if (row->needs_float32)
      names.push_back(fmt::format("{} in {} ({}, {} lost, {} over)", row->values->op,
                                  name_of(row->values->module), to_string(row->values->kind),
                                  percent(row->shares.lost), percent(row->shares.over)));
  lines.push_back(names.empty() ? fmt::format("no op that would run in {} needs float32 instead",
                                              to_string(report.type))
                                : fmt::format("ops that need float32: {}", fmt::join(names, "; ")));
}

}  // namespace

NumericsReport numerics_report(const NumericsWatch& watch, Dtype type) {
  const FloatRange range = range_of(type);
  ExponentHistogram activations, gradients;
  for (const WatchedValues& one : watch.values())
    if (!stays_float32(one))
      (one.kind == WatchedKind::activations ? activations : gradients).add(one.exponents);
  const bool scales = type == Dtype::float16 && !is_scaled(watch);
  const int shift = scales ? best_shift(gradients, range) : 0;
  NumericsReport report{.type = type,
                        .loss_scale = std::ldexp(1.0, shift),
                        .activations = activations.shares(range),
                        .gradients = gradients.shares(range),
                        .scaled_gradients = gradients.shares(range, shift)};
  for (const WatchedValues& one : watch.values()) {
    const int by = one.kind == WatchedKind::activations ? 0 : shift;
    const RangeShares shares = one.exponents.shares(range, by);
    report.rows.push_back(
        {.values = &one,
         .shares = shares,
         .needs_float32 = (shares.over > 0 || shares.lost > kMuch) && !is_float32_anyway(one)});
  }
  return report;
}

std::vector<std::string> summary_of(const NumericsReport& report, const NumericsWatch& watch) {
  if (watch.steps().empty()) {
    std::vector<std::string> lines{"no update was looked at and applied"};
    add_skipped(lines, watch);
    return lines;
  }
  std::vector<std::string> lines{
      fmt::format("updates looked at: {}", steps_of(watch)),
      fmt::format("in {} {} of the activations that are not 0 become 0, {} are subnormal, {} are "
                  "within a factor of 8 of the largest number, {} beyond it",
                  to_string(report.type), percent(report.activations.lost),
                  percent(report.activations.subnormal), percent(report.activations.near),
                  percent(report.activations.over)),
      fmt::format("of the gradients {} become 0, {} are subnormal, {} are near the largest number, "
                  "{} beyond it",
                  percent(report.gradients.lost), percent(report.gradients.subnormal),
                  percent(report.gradients.near), percent(report.gradients.over))};
  add_scale(lines, report, watch);
  add_needs(lines, report);
  add_skipped(lines, watch);
  return lines;
}

std::string table_of(const NumericsReport& report, size_t most) {
  std::vector<const NumericsRow*> rows = worst_first(report);
  size_t module = 6, op = 2;
  rows.resize(std::min(most, rows.size()));
  for (const NumericsRow* row : rows) {
    module = std::max(module, name_of(row->values->module).size());
    op = std::max(op, row->values->op.size());
  }
  const auto line = [&](const std::string& where, const std::string& what, const char* kind,
                        const std::vector<std::string>& cells) {
    return fmt::format("{:<{}}  {:<{}}  {:<19}  {:>15}  {:>7}  {:>7}  {:>9}  {:>7}  {:>7}\n", where,
                       module, what, op, kind, cells[0], cells[1], cells[2], cells[3], cells[4],
                       cells[5]);
  };
  std::string table =
      line("module", "op", "values", {"range", "zeros", "lost", "subnormal", "near", "over"});
  for (const NumericsRow* row : rows)
    table += line(name_of(row->values->module), row->values->op, to_string(row->values->kind),
                  cells_of(*row));
  if (rows.size() < report.rows.size())
    table += fmt::format("and {} rows that lose no more\n", report.rows.size() - rows.size());
  return table;
}

std::string numerics_page(const NumericsReport& report, const NumericsWatch& watch,
                          const std::vector<std::string>& about) {
  const FloatRange range = range_of(report.type);
  memory::NumericsPage page{
      .title = fmt::format("Numbers of a training, and {}", to_string(report.type)),
      .subtitle = about,
      .summary = summary_of(report, watch),
      .columns = {"Range", "Zeros", "Lost", "Subnormal", "Near the end", "Over"},
      .smallest = range.smallest,
      .smallest_normal = range.smallest_normal,
      .largest = range.largest};
  for (const NumericsRow& row : report.rows) {
    const ExponentHistogram& exponents = row.values->exponents;
    memory::DrawnExponents drawn{.module = name_of(row.values->module),
                                 .op = row.values->op,
                                 .values = to_string(row.values->kind),
                                 .first = ExponentHistogram::kLeast,
                                 .cells = cells_of(row),
                                 .marked = row.needs_float32};
    for (int e = ExponentHistogram::kLeast; e <= ExponentHistogram::kMost; ++e)
      drawn.counts.push_back(exponents.count(e));
    page.rows.push_back(std::move(drawn));
  }
  return memory::numerics_page(page);
}

}  // namespace brim
