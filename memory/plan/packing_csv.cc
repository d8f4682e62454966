#include "brim/memory/plan/packing_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "brim/base/error.h"

namespace brim::memory {
namespace {

constexpr const char* kTag = "packing csv";
constexpr size_t kLongestId = 1000;
constexpr size_t kLongestShown = 40;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // spreadsheets write it in front
constexpr std::array<std::string_view, 4> kColumns = {"id", "lower", "upper", "size"};

bool is_plain(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

bool is_id(std::string_view id) {
  return !id.empty() && id.size() <= kLongestId && is_plain(id) &&
         id.find_first_of(",\"") == id.npos && id.front() != ' ' && id.back() != ' ';
}

/// For a message: short, and nothing by which a terminal could be made to lie.
std::string shown(std::string_view field) {
  if (!is_plain(field)) return "control characters";
  bool is_long = field.size() > kLongestShown;
  return fmt::format("'{}{}'", field.substr(0, kLongestShown), is_long ? ".." : "");
}

std::string_view trimmed(std::string_view text) {
  size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == text.npos ? std::string_view() : text.substr(first, last - first + 1);
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  PackingRows parse() {
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
    require(next_line(), "expected a line 'id,lower,upper,size', got an empty file");
    read_columns();
    while (next_line()) read_row();
    expect<FileError>(!rows_.ids.empty(), kTag, "'{}' has no rows", path_);
    refuse_same_ids();
    return std::move(rows_);
  }

 private:
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    if (ok) return;
    raise<FileError>(kTag, "'{}' line {}: {}", path_, line_,
                     fmt::format(format, std::forward<Args>(args)...));
  }

  /// The fields of the next line that is not empty; false at the end.
  bool next_line() {
    while (!rest_.empty()) {
      std::string_view line = rest_.substr(0, rest_.find('\n'));
      rest_.remove_prefix(std::min(line.size() + 1, rest_.size()));
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (trimmed(line).empty()) continue;
      fields_.clear();
      for (size_t comma; (comma = line.find(',')) != line.npos; line.remove_prefix(comma + 1))
        fields_.push_back(trimmed(line.substr(0, comma)));
      fields_.push_back(trimmed(line));
      return true;
    }
    return false;
  }

  void read_columns() {
    for (size_t c = 0; c < kColumns.size(); ++c) {
      auto count = std::ranges::count(fields_, kColumns[c]);
      require(count > 0, "expected the columns id, lower, upper and size, got no '{}'",
              kColumns[c]);
      require(count == 1, "the column '{}' is there twice", kColumns[c]);
      places_[c] = static_cast<size_t>(std::ranges::find(fields_, kColumns[c]) - fields_.begin());
    }
    columns_ = fields_.size();
  }

  void read_row() {
    require(fields_.size() == columns_, "expected {} fields, got {}", columns_, fields_.size());
    std::string_view id = fields_[places_[0]];
    require(is_id(id), "expected an id without quotes and control characters, got {}", shown(id));
    Lifetime life{number(1), number(2), number(3)};
    require(life.lower < life.upper, "expected lower < upper, got {} and {}", life.lower,
            life.upper);
    require(life.size >= 0, "expected a size from 0, got {}", life.size);
    require(life.size <= left_, "the sizes up to here add up to 2^63 or more");
    left_ -= life.size;
    rows_.ids.emplace_back(id);
    rows_.lifetimes.push_back(life);
    lines_.push_back(line_);
  }

  int64_t number(size_t column) const {
    std::string_view field = fields_[places_[column]];
    int64_t value = 0;
    auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    require(error != std::errc::result_out_of_range, "{} {} is beyond 64 bits", kColumns[column],
            shown(field));
    require(error == std::errc() && end == field.data() + field.size(),
            "expected a whole number as {}, got {}", kColumns[column], shown(field));
    return value;
  }

  void refuse_same_ids() {
    std::vector<uint32_t> order(rows_.ids.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
      return std::tie(rows_.ids[a], a) < std::tie(rows_.ids[b], b);
    });
    auto same = std::ranges::adjacent_find(
        order, [&](uint32_t a, uint32_t b) { return rows_.ids[a] == rows_.ids[b]; });
    if (same == order.end()) return;
    line_ = lines_[same[1]];
    require(false, "the id {} is also on line {}", shown(rows_.ids[same[0]]), lines_[same[0]]);
  }

  std::string_view rest_;
  const std::string& path_;
  int64_t line_ = 0;
  std::vector<std::string_view> fields_;
  std::array<size_t, kColumns.size()> places_{};
  size_t columns_ = 0;
  int64_t left_ = std::numeric_limits<int64_t>::max();
  PackingRows rows_;
  std::vector<int64_t> lines_;  // of the rows
};

}  // namespace

PackingRows parse_packing_csv(std::string_view text, const std::string& path) {
  return Parser(text, path).parse();
}

std::string format_packing_csv(const PackingRows& rows, std::span<const int64_t> offsets) {
  check(rows.ids.size() == rows.lifetimes.size(), "an id for each lifetime");
  check(offsets.empty() || offsets.size() == rows.ids.size(), "an offset for each row, or none");
  std::string text = offsets.empty() ? "id,lower,upper,size\n" : "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    const Lifetime& life = rows.lifetimes[i];
    expect<ValueError>(is_id(rows.ids[i]), kTag, "row {}: cannot write the id {}", i,
                       shown(rows.ids[i]));
    fmt::format_to(std::back_inserter(text), "{},{},{},{}", rows.ids[i], life.lower, life.upper,
                   life.size);
    if (!offsets.empty()) fmt::format_to(std::back_inserter(text), ",{}", offsets[i]);
    text += '\n';
  }
  return text;
}

PackingRows packing_rows(const Trace& trace) {
  PackingRows rows{.lifetimes = trace.lifetimes()};
  for (size_t i = 0; i < trace.buffers.size(); ++i) rows.ids.push_back(std::to_string(i));
  return rows;
}

}  // namespace brim::memory
