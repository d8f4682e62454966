#include "brim/memory/report/numerics_page.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "brim/base/error.h"
#include "brim/memory/report/markup.h"
#include "brim/memory/report/page.h"

namespace brim::memory {
namespace {

constexpr const char* kTag = "numerics_page";
constexpr int kLowest = -60, kHighest = 24;  // drawn at most
constexpr int kBar = 5, kHeight = 30;        // pixels: the width of an exponent, a histogram

/// The exponents that are drawn; what is beyond stands at the end.
struct Axis {
  int low, high;
  int x(int exponent) const { return (std::clamp(exponent, low, high + 1) - low) * kBar; }
  int width() const { return x(high + 1); }
};

Axis axis_of(const NumericsPage& page) {
  Axis axis{std::max(page.smallest - 4, kLowest), std::min(page.largest + 3, kHighest)};
  for (const DrawnExponents& row : page.rows)
    for (size_t i = 0; i < row.counts.size(); ++i) {
      if (row.counts[i] == 0) continue;
      const int exponent = row.first + static_cast<int>(i);
      axis.low = std::max(std::min(axis.low, exponent), kLowest);
      axis.high = std::min(std::max(axis.high, exponent), kHighest);
    }
  return axis;
}

void check_page(const NumericsPage& page) {
  for (const DrawnExponents& row : page.rows) {
    expect<ValueError>(row.cells.size() == page.columns.size(), kTag,
                       "expected {} cells for {} in {}, got {}", page.columns.size(), row.op,
                       row.module, row.cells.size());
    for (int64_t count : row.counts)
      expect<ValueError>(count >= 0, kTag, "expected counts from 0, got {}", count);
  }
}

std::string band(const char* kind, int left, int right) {
  if (right <= left) return "";
  return fmt::format("<rect class=\"{}\" x=\"{}\" y=\"0\" width=\"{}\" height=\"{}\"/>", kind, left,
                     right - left, kHeight);
}

/// What the type does to numbers there.
std::string bands(const NumericsPage& page, const Axis& axis) {
  return band("lost", 0, axis.x(page.smallest - 1)) +
         band("subnormal", axis.x(page.smallest - 1), axis.x(page.smallest_normal)) +
         band("over", axis.x(page.largest + 1), axis.width());
}

std::vector<int64_t> drawn_counts(const DrawnExponents& row, const Axis& axis) {
  std::vector<int64_t> counts(static_cast<size_t>(axis.high - axis.low + 1));
  for (size_t i = 0; i < row.counts.size(); ++i) {
    const int at = std::clamp(row.first + static_cast<int>(i), axis.low, axis.high) - axis.low;
    counts[static_cast<size_t>(at)] += row.counts[i];
  }
  return counts;
}

/// One path; heights are logarithms, so that a thousandth of the values can be seen.
std::string bars(const std::vector<int64_t>& counts) {
  const int64_t most = *std::ranges::max_element(counts);
  const double unit = kHeight / std::log1p(static_cast<double>(most));
  std::string path;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double height = std::max(1.0, unit * std::log1p(static_cast<double>(counts[i])));
    path += fmt::format("M{} {}v-{:.1f}h{}v{:.1f}z", static_cast<int>(i) * kBar, kHeight, height,
                        kBar - 1, height);
  }
  return fmt::format("<path d=\"{}\"/>", path);
}

std::string histogram(const DrawnExponents& row, const NumericsPage& page, const Axis& axis) {
  return fmt::format(
      "<svg class=\"exponents\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-label=\"{2} of {3} in {4}\">{5}{6}</svg>",
      axis.width(), kHeight, escaped(row.values), escaped(row.op), escaped(row.module),
      bands(page, axis), bars(drawn_counts(row, axis)));
}

/// Powers of two over the column of histograms.
std::string scale(const Axis& axis) {
  std::string text;
  for (int e = axis.low + 2; e <= axis.high - 1; ++e)
    if (e % 10 == 0)
      text += fmt::format("<text x=\"{}\" y=\"14\">2^{}</text>", axis.x(e) + kBar / 2, e);
  return fmt::format(
      "<svg class=\"exponents\" width=\"{0}\" height=\"18\" viewBox=\"0 0 {0} 18\" "
      "aria-hidden=\"true\">{1}</svg>",
      axis.width(), text);
}

std::string rows_of(const NumericsPage& page, const Axis& axis) {
  std::string rows;
  for (const DrawnExponents& row : page.rows) {
    rows += fmt::format("<tr{}><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td>",
                        row.marked ? " class=\"marked\"" : "", escaped(row.module), escaped(row.op),
                        escaped(row.values), histogram(row, page, axis));
    for (const std::string& cell : row.cells)
      rows += fmt::format("<td class=\"number\">{}</td>", escaped(cell));
    rows += "</tr>\n";
  }
  return rows;
}

std::string columns_of(const NumericsPage& page) {
  std::string columns;
  for (const std::string& column : page.columns)
    columns += fmt::format("<th scope=\"col\" class=\"number\">{}</th>\n", escaped(column));
  return columns;
}

std::string summary_of(const NumericsPage& page) {
  std::string lines;
  for (const std::string& line : page.summary) lines += fmt::format("<li>{}</li>\n", escaped(line));
  return lines;
}

}  // namespace

std::string numerics_page(const NumericsPage& page) {
  check_page(page);
  const Axis axis = axis_of(page);
  return filled(kNumericsPage,
                {{"{{title}}", escaped(page.title)},
                 {"{{subtitle}}", escaped(fmt::format("{}", fmt::join(page.subtitle, "\n")))},
                 {"{{summary}}", summary_of(page)},
                 {"{{scale}}", scale(axis)},
                 {"{{columns}}", columns_of(page)},
                 {"{{rows}}", rows_of(page, axis)}});
}

}  // namespace brim::memory
