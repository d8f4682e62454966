#include "brim/memory/report/profile_page.h"

#include <fmt/ranges.h>

#include <cmath>

#include "brim/base/error.h"
#include "brim/memory/report/markup.h"
#include "brim/memory/report/page.h"

namespace brim::memory {
namespace {

constexpr const char* kTag = "profile_page";

void check_share(double share) {
  expect<ValueError>(std::isfinite(share) && share >= 0, kTag,
                     "expected finite shares from 0, got {}", share);
}

void check_table(const ProfileTable& table) {
  int deepest = 0;
  for (const ProfileRow& row : table.rows) {
    expect<ValueError>(row.cells.size() == table.columns.size(), kTag,
                       "expected {} cells for {}, got {}", table.columns.size(), row.name,
                       row.cells.size());
    expect<ValueError>(row.depth >= 0 && row.depth <= deepest, kTag,
                       "expected a depth from 0 to {} for {}, got {}", deepest, row.name,
                       row.depth);
    check_share(row.share);
    deepest = row.depth + 1;
  }
}

/// One for each place in the bar.
std::string colour(size_t part) {
  constexpr const char* kColours[] = {"--parameters", "--activations", "--scratch", "--optimizer"};
  return fmt::format("var({})", part < std::size(kColours) ? kColours[part] : "--other");
}

std::string bar_of(const std::vector<ProfilePart>& parts) {
  std::string bar, key;
  for (size_t i = 0; i < parts.size(); ++i) {
    check_share(parts[i].share);
    const std::string name = escaped(parts[i].name);
    bar += fmt::format("<span style=\"--fill: {}; flex-grow: {:.6f}\" title=\"{}\"></span>",
                       colour(i), parts[i].share, name);
    key += fmt::format("<li><span class=\"chip\" style=\"--fill: {}\"></span>{}</li>", colour(i),
                       name);
  }
  return fmt::format(
      "<div class=\"parts\" aria-hidden=\"true\">{}</div>\n<ul id=\"legend\">{}</ul>", bar, key);
}

std::string header_of(const std::string& column, const char* kind) {
  return fmt::format("<th scope=\"col\"{}><button type=\"button\" disabled>{}</button></th>", kind,
                     escaped(column));
}

std::string row_of(const ProfileRow& row) {
  std::string text = fmt::format(
      "<tr data-depth=\"{0}\"><th scope=\"row\" style=\"--depth: {0}\" data-value=\"{1}\">{1}</th>"
      "<td class=\"number share\" style=\"--share: {2:.2f}%\" data-value=\"{3:.9g}\">{2:.1f}%</td>",
      row.depth, escaped(row.name), 100 * row.share, row.share);
  for (const ProfileCell& cell : row.cells)
    text += fmt::format("<td class=\"number\" data-value=\"{:.9g}\">{}</td>", cell.value,
                        escaped(cell.text));
  return text + "</tr>\n";
}

std::string table_of(const ProfileTable& table, const std::string& first) {
  check_table(table);
  std::string columns = header_of(first, ""), rows;
  columns += header_of("Share", " class=\"number\"");
  for (const std::string& column : table.columns) columns += header_of(column, " class=\"number\"");
  for (const ProfileRow& row : table.rows) rows += row_of(row);
  return fmt::format(
      "<table class=\"tree\"><thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table>", columns,
      rows);
}

std::string summary_of(const ProfilePage& page) {
  std::string lines;
  for (const std::string& line : page.summary) lines += fmt::format("<li>{}</li>\n", escaped(line));
  return lines;
}

}  // namespace

std::string profile_page(const ProfilePage& page) {
  return filled(kProfilePage,
                {{"{{title}}", escaped(page.title)},
                 {"{{subtitle}}", escaped(fmt::format("{}", fmt::join(page.subtitle, "\n")))},
                 {"{{summary}}", summary_of(page)},
                 {"{{bar}}", bar_of(page.parts)},
                 {"{{modules}}", table_of(page.modules, "Module")},
                 {"{{ops}}", table_of(page.ops, "Op")},
                 {"{{calls}}", table_of(page.calls, "Module and op")}});
}

}  // namespace brim::memory
