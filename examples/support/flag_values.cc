#include "brim/examples/support/flag_values.h"

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

namespace brim::examples {
namespace {

constexpr size_t kLongestShown = 40;  // of a value that is refused

std::string quoted(const std::string& text) {
  const bool is_long = text.size() > kLongestShown;
  return fmt::format("'{}{}'", text.substr(0, kLongestShown), is_long ? ".." : "");
}

/// `fault` says what is wrong with a text, "" where nothing is.
CLI::Validator validator(std::function<std::string(const std::string&)> fault,
                         const std::string& range) {
  return CLI::Validator([fault = std::move(fault)](std::string& text) { return fault(text); },
                        range);
}

/// For numbers: `what` and `range` are "a whole number" and "from 1 to 10".
CLI::Validator number_validator(std::function<bool(const std::string&)> takes,
                                const std::string& what, const std::string& range) {
  return validator(
      [=](const std::string& text) {
        return takes(text) ? "" : fmt::format("expected {} {}, got {}", what, range, quoted(text));
      },
      range);
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

/// What a flag's checks take, as they say it; "" for nothing.
std::string range_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  return colon == type.npos ? "" : type.substr(colon + 1);
}

}  // namespace

bool is_whole_number(const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  return parse_whole(text, value) && value >= least && value <= most;
}

CLI::Validator whole_number(int64_t least, int64_t most) {
  return number_validator(
      [=](const std::string& text) { return is_whole_number(text, least, most); }, "a whole number",
      fmt::format("from {} to {}", least, most));
}

CLI::Validator seed_number() {
  return number_validator(
      [](const std::string& text) {
        uint64_t value = 0;
        return parse_whole(text, value);
      },
      "a whole number", "from 0 to 2^64 - 1");
}

CLI::Validator thread_count() { return whole_number(1, most_threads()); }

CLI::Validator number(const NumberRange& range) {
  return number_validator(
      [range](const std::string& text) {
        double value = 0;
        const char* all = text.data() + text.size();
        auto [end, error] = std::from_chars(text.data(), all, value);
        return error == std::errc{} && end == all && is_in(range, value);  // no NaN is
      },
      "a number", words_of(range));
}

CLI::Validator positive_number() { return number({.least = 0, .most = 1e30, .above_least = true}); }

CLI::Validator byte_size(int64_t least) {
  return validator(
      [least](const std::string& text) -> std::string {
        try {
          if (parse_bytes(text) >= least) return "";
        } catch (const Error&) {
        }
        return fmt::format("expected a size from {} to 2^63 - 1 bytes, such as 300MiB, got {}",
                           least, quoted(text));
      },
      fmt::format("from {} to 2^63 - 1 bytes", least));
}

CLI::Validator one_of(std::vector<std::string> names) {
  return validator(
      [names = std::move(names)](const std::string& text) {
        if (std::ranges::find(names, text) != names.end()) return std::string();
        return fmt::format("expected {}, got {}{}", fmt::join(names, ", "), quoted(text),
                           did_you_mean(text, names));
      },
      "");
}

CLI::Validator model_name() {
  return validator(
      [](const std::string& text) {
        const std::vector<std::string> names = nn::model_names();
        if (std::ranges::find(names, text) != names.end()) return std::string();
        return fmt::format("no model is called {}{}", quoted(text), did_you_mean(text, names));
      },
      "");
}

CLI::Validator file_name() {
  return validator(
      [](const std::string& text) { return text.empty() ? "expected a name, got ''" : ""; }, "");
}

CLI::Validator parsed_by(std::function<void(const std::string&)> parse) {
  return validator(
      [parse = std::move(parse)](const std::string& text) -> std::string {
        try {
          parse(text);
          return "";
        } catch (const Error& error) {
          return std::string(error.what()).substr(error.tag().size() + 2);  // without "tag: "
        }
      },
      "");
}

std::string FlagHelp::make_option_opts(const CLI::Option* option) const {
  std::string text = Formatter::make_option_opts(option);
  const std::string range = ":" + range_of(*option);
  if (const size_t at = text.find(range); range != ":" && at != text.npos)
    text.erase(at, range.size());
  return text;
}

std::string FlagHelp::make_option_desc(const CLI::Option* option) const {
  const std::string range = range_of(*option);
  return Formatter::make_option_desc(option) + (range.empty() ? "" : "; " + range);
}

}  // namespace brim::examples
