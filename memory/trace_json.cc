#include "brim/memory/trace_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "brim/base/error.h"
#include "brim/base/json_text.h"

namespace brim::memory {
namespace {

using nlohmann::json;

constexpr const char* kTag = "trace";
constexpr const char* kFormat = "brim trace";
constexpr int kVersion = 1;
// Each may be the text of many buffers.
constexpr size_t kLongestText = 1024;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

std::string name_of(SectionKind kind) { return to_string(Section{.kind = kind}); }

/// The enumerator of this name, among the first `count`.
template <class Enum, class Name>
bool find_enumerator(const std::string& text, int count, const Name& name, Enum& found) {
  for (int i = 0; i < count; ++i)
    if (name(static_cast<Enum>(i)) == text) {
      found = static_cast<Enum>(i);
      return true;
    }
  return false;
}

/// Strings and origins by number, in the order in which they come.
class Writer {
 public:
  json write(const Trace& trace) {
    json buffers = json::array(), ops = json::array(), sections = json::array();
    for (const TraceBuffer& buffer : trace.buffers) {
      check(buffer.birth == static_cast<int64_t>(buffers.size()), "a buffer is born at its number");
      buffers.push_back(row(buffer));
    }
    for (const TraceOp& op : trace.ops) ops.push_back(row(op));
    for (const TraceSection& s : trace.sections)
      sections.push_back({name_of(s.section.kind), s.section.samples, s.begin, s.end, s.step});
    return {{"format", kFormat},
            {"version", kVersion},
            {"end", trace.end},
            {"strings", std::move(strings_)},
            {"origins", std::move(origins_)},
            {"buffers", std::move(buffers)},
            {"ops", std::move(ops)},
            {"sections", std::move(sections)}};
  }

 private:
  json row(const TraceBuffer& b) {
    return {b.bytes,   to_string(b.category), number(b.shape), number(b.origin), b.run, b.death,
            b.last_use};
  }
  json row(const TraceOp& op) {
    for (double value : {op.flops, op.begin_seconds, op.end_seconds})
      expect<ValueError>(std::isfinite(value), kTag, "'{}' has a number that is not finite",
                         op.origin.op);
    return {number(op.origin), op.begin,       op.end,           op.inputs,     op.outputs,
            op.flops,          op.bytes_moved, op.begin_seconds, op.end_seconds};
  }
  size_t number(const std::string& text) {
    auto [found, is_new] = string_numbers_.try_emplace(text, string_numbers_.size());
    expect<ValueError>(text.size() <= kLongestText, kTag,
                       "expected text of at most {} bytes, got {}", kLongestText, text.size());
    if (is_new) strings_.push_back(text);
    return found->second;
  }
  size_t number(const Origin& o) {
    auto key = std::tuple(number(o.op), number(o.module), number(o.file), o.line,
                          static_cast<int>(o.phase));
    auto [found, is_new] = origin_numbers_.try_emplace(key, origin_numbers_.size());
    if (is_new)
      origins_.push_back(
          {std::get<0>(key), std::get<1>(key), std::get<2>(key), o.line, to_string(o.phase)});
    return found->second;
  }

  json strings_ = json::array(), origins_ = json::array();
  std::map<std::string, size_t> string_numbers_;
  std::map<std::tuple<size_t, size_t, size_t, int64_t, int>, size_t> origin_numbers_;
};

/// One row of a table, checked entry by entry. `what` and `number` name it in errors.
class Row {
 public:
  Row(const json& row, const char* what, size_t number, size_t entries)
      : row_(row), what_(what), number_(number) {
    expect<FileError>(row.is_array() && row.size() == entries, kTag,
                      "{} {}: expected a list of {} entries", what, number, entries);
  }

  int64_t integer(size_t i, const char* name, int64_t low, int64_t high) const {
    const json& value = row_[i];
    bool fits = value.is_number_integer() &&
                (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{kMost});
    int64_t number = fits ? value.get<int64_t>() : 0;
    expect<FileError>(fits && number >= low && number <= high, kTag,
                      "{} {}: expected {} from {} to {}, got {}", what_, number_, name, low, high,
                      value.is_number() ? value.dump() : value.type_name());
    return number;
  }
  double real(size_t i, const char* name) const {
    const json& value = row_[i];
    double number = value.is_number() ? value.get<double>() : -1;
    expect<FileError>(number >= 0 && std::isfinite(number), kTag,
                      "{} {}: expected {} of at least 0", what_, number_, name);
    return number;
  }
  template <class Enum, class Name>
  Enum enumerator(size_t i, const char* name, int count, const Name& name_of) const {
    Enum found{};
    expect<FileError>(row_[i].is_string() && find_enumerator(row_[i].get_ref<const std::string&>(),
                                                             count, name_of, found),
                      kTag, "{} {}: no such {}", what_, number_, name);
    return found;
  }
  /// Entry i, one of `table`.
  template <class T>
  const T& one_of(size_t i, const char* name, const std::vector<T>& table) const {
    return table[static_cast<size_t>(integer(i, name, 0, std::ssize(table) - 1))];
  }
  std::vector<int64_t> numbers(size_t i, const char* name, int64_t count) const {
    expect<FileError>(row_[i].is_array(), kTag, "{} {}: expected a list of {}", what_, number_,
                      name);
    std::vector<int64_t> list;
    for (size_t k = 0; k < row_[i].size(); ++k)
      list.push_back(Row(row_[i], what_, number_, row_[i].size()).integer(k, name, 0, count - 1));
    return list;
  }

 private:
  const json& row_;
  const char* what_;
  size_t number_;
};

class Reader {
 public:
  explicit Reader(const json& root) : root_(root) {}

  Trace read() {
    read_strings();
    for_each_row("origins", "origin", 5, [&](const Row& row) { origins_.push_back(origin(row)); });
    trace_.end = std::ssize(table("buffers"));
    expect<FileError>(root_["end"] == trace_.end, kTag,
                      "expected an end at {}, as there are buffers", trace_.end);
    for_each_row("buffers", "buffer", 7, [&](const Row& row) { add_buffer(row); });
    for_each_row("ops", "op", 9, [&](const Row& row) { trace_.ops.push_back(op(row)); });
    for_each_row("sections", "section", 5,
                 [&](const Row& row) { trace_.sections.push_back(section(row)); });
    return std::move(trace_);
  }

 private:
  const json& table(const char* name) const {
    auto found = root_.find(name);
    expect<FileError>(found != root_.end() && found->is_array(), kTag, "expected a list '{}'",
                      name);
    return *found;
  }
  template <class Body>
  void for_each_row(const char* name, const char* what, size_t entries, const Body& body) const {
    size_t number = 0;
    for (const json& row : table(name)) body(Row(row, what, number++, entries));
  }
  void read_strings() {
    for (const json& text : table("strings")) {
      bool fits = text.is_string() && text.get_ref<const std::string&>().size() <= kLongestText;
      expect<FileError>(fits, kTag, "string {}: expected text of at most {} bytes", strings_.size(),
                        kLongestText);
      strings_.push_back(text.get<std::string>());
    }
  }
  Origin origin(const Row& row) const {
    return {.op = row.one_of(0, "op", strings_),
            .module = row.one_of(1, "module", strings_),
            .file = row.one_of(2, "file", strings_),
            .line = row.integer(3, "line", 0, kMost),
            .phase = row.enumerator<Phase>(4, "phase", kPhaseCount,
                                           [](Phase p) { return to_string(p); })};
  }
  void add_buffer(const Row& row) {
    int64_t birth = std::ssize(trace_.buffers);
    TraceBuffer buffer{
        .bytes = row.integer(0, "bytes", 0, kMost),
        .category = row.enumerator<Category>(1, "category", static_cast<int>(kCategories),
                                             [](Category c) { return to_string(c); }),
        .shape = row.one_of(2, "shape", strings_),
        .origin = row.one_of(3, "origin", origins_),
        .run = row.integer(4, "run", 0, kMost),
        .birth = birth,
        .death = row.integer(5, "death", birth + 1, trace_.end)};
    buffer.last_use = row.integer(6, "last use", birth, buffer.death);
    bool overflow = __builtin_add_overflow(bytes_, buffer.bytes, &bytes_);
    expect<FileError>(!overflow, kTag, "the buffers together are beyond 2^63 - 1 bytes");
    trace_.buffers.push_back(std::move(buffer));
  }
  TraceOp op(const Row& row) const {
    TraceOp op{.origin = row.one_of(0, "origin", origins_),
               .begin = row.integer(1, "begin", 0, trace_.end)};
    op.end = row.integer(2, "end", op.begin, trace_.end);
    op.inputs = row.numbers(3, "inputs", trace_.end);
    op.outputs = row.numbers(4, "outputs", trace_.end);
    op.flops = row.real(5, "FLOPs");
    op.bytes_moved = row.integer(6, "bytes moved", 0, kMost);
    op.begin_seconds = row.real(7, "seconds");
    op.end_seconds = row.real(8, "seconds");
    return op;
  }
  TraceSection section(const Row& row) const {
    TraceSection section{
        .section = {row.enumerator<SectionKind>(0, "kind", static_cast<int>(SectionKind::other) + 1,
                                                name_of),
                    row.integer(1, "samples", 0, kMost)},
        .begin = row.integer(2, "begin", 0, trace_.end)};
    section.end = row.integer(3, "end", section.begin, trace_.end);
    section.step = row.integer(4, "step", -1, kMost);
    return section;
  }

  const json& root_;
  std::vector<std::string> strings_;
  std::vector<Origin> origins_;
  Trace trace_;
  int64_t bytes_ = 0;
};

}  // namespace

std::string to_json(const Trace& trace) { return json_text(Writer().write(trace)); }

Trace trace_from_json(std::string_view text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  expect<FileError>(root.is_object(), kTag, "not JSON, or no object");
  auto is = [&](const char* key, const json& value) {
    auto found = root.find(key);
    return found != root.end() && *found == value;
  };
  expect<FileError>(is("format", kFormat) && is("version", kVersion), kTag,
                    "expected format '{}' of version {}", kFormat, kVersion);
  expect<FileError>(root.contains("end"), kTag, "expected an end");
  return Reader(root).read();
}

}  // namespace brim::memory
