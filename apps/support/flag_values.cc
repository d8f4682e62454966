#include "brim/apps/support/flag_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/base/nearest.h"
#include "brim/base/thread_limit.h"
#include "brim/nn/models/registry.h"

namespace brim::apps {
namespace {

constexpr size_t kLongestShown = 40;  // of a value that is refused

std::string quoted(const std::string& text) {
  const bool is_long = text.size() > kLongestShown;
  return fmt::format("'{}{}'", text.substr(0, kLongestShown), is_long ? ".." : "");
}

/// For numbers: `what` and `range` are "a whole number" and "from 1 to 10".
FlagCheck number_check(std::function<bool(const std::string&)> takes, const std::string& what,
                       const std::string& range) {
  return {[=](const std::string& text) {
            return takes(text) ? ""
                               : fmt::format("expected {} {}, got {}", what, range, quoted(text));
          },
          range};
}

/// All of `text`, as it would be printed.
template <class T>
bool parse_whole(const std::string& text, T& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && fmt::to_string(value) == text;
}

bool is_in(const NumberRange& range, double value) {
  return (range.above_least ? value > range.least : value >= range.least) &&
         (range.below_most ? value < range.most : value <= range.most);
}

std::string words_of(const NumberRange& range) {
  return fmt::format("{} {} {} {}", range.above_least ? "above" : "from", range.least,
                     range.above_least ? (range.below_most ? "and below" : "and up to")
                                       : (range.below_most ? "to below" : "to"),
                     range.most);
}

}  // namespace

bool is_whole_number(const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  return parse_whole(text, value) && value >= least && value <= most;
}

FlagCheck whole_number(int64_t least, int64_t most) {
  return number_check([=](const std::string& text) { return is_whole_number(text, least, most); },
                      "a whole number", fmt::format("from {} to {}", least, most));
}

FlagCheck seed_number() {
  return number_check(
      [](const std::string& text) {
        uint64_t value = 0;
        return parse_whole(text, value);
      },
      "a whole number", "from 0 to 2^64 - 1");
}

FlagCheck thread_count() { return whole_number(1, most_threads()); }

FlagCheck number(const NumberRange& range) {
  return number_check(
      [range](const std::string& text) {
        double value = 0;
        const char* all = text.data() + text.size();
        auto [end, error] = std::from_chars(text.data(), all, value);
        return error == std::errc{} && end == all && is_in(range, value);  // no NaN is
      },
      "a number", words_of(range));
}

FlagCheck positive_number() { return number({.least = 0, .most = 1e30, .above_least = true}); }

FlagCheck byte_size(int64_t least) {
  return {[least](const std::string& text) -> std::string {
            try {
              if (parse_bytes(text) >= least) return "";
            } catch (const Error&) {
            }
            return fmt::format("expected a size from {} to 2^63 - 1 bytes, such as 300MiB, got {}",
                               least, quoted(text));
          },
          fmt::format("from {} to 2^63 - 1 bytes", least)};
}

FlagCheck one_of(std::vector<std::string> names) {
  return {[names = std::move(names)](const std::string& text) {
            if (std::ranges::find(names, text) != names.end()) return std::string();
            return fmt::format("expected {}, got {}{}", fmt::join(names, ", "), quoted(text),
                               did_you_mean(text, names));
          }};
}

FlagCheck model_name() {
  return {[](const std::string& text) {
            const std::vector<std::string> names = nn::model_names();
            if (std::ranges::find(names, text) != names.end()) return std::string();
            return fmt::format("no model is called {}{}", quoted(text), did_you_mean(text, names));
          }};
}

FlagCheck file_name() {
  return {[](const std::string& text) { return text.empty() ? "expected a name, got ''" : ""; }};
}

FlagCheck parsed_by(std::function<void(const std::string&)> parse) {
  return {[parse = std::move(parse)](const std::string& text) -> std::string {
            try {
              parse(text);
              return "";
            } catch (const Error& error) {
              return std::string(error.what()).substr(error.tag().size() + 2);  // without "tag: "
            }
          }};
}

}  // namespace brim::apps
