#include "brim/base/bytes.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "brim/base/error.h"

namespace brim {
namespace {

constexpr double kKi = 1024.0;

double unit_bytes(std::string_view unit, std::string_view whole) {
  static constexpr std::array<std::pair<std::string_view, double>, 18> kUnits{{
      {"", 1},
      {"b", 1},
      {"k", 1e3},
      {"kb", 1e3},
      {"m", 1e6},
      {"mb", 1e6},
      {"g", 1e9},
      {"gb", 1e9},
      {"t", 1e12},
      {"tb", 1e12},
      {"ki", kKi},
      {"kib", kKi},
      {"mi", kKi * kKi},
      {"mib", kKi * kKi},
      {"gi", kKi * kKi * kKi},
      {"gib", kKi * kKi * kKi},
      {"ti", kKi * kKi * kKi * kKi},
      {"tib", kKi * kKi * kKi * kKi},
  }};
  std::string lower;
  for (char c : unit) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& [name, bytes] : kUnits)
    if (lower == name) return bytes;
  raise<ValueError>("bytes", "unknown unit '{}' in size '{}'; use B, KiB, MiB, GiB, KB, MB or GB",
                    unit, whole);
}

}  // namespace

int64_t parse_bytes(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  auto [rest, status] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  expect<ValueError>(status == std::errc() && rest != text.data(), "bytes",
                     "expected a size such as 300MiB, 1.5GB or 4096, got '{}'", text);
  while (rest != end && *rest == ' ') ++rest;
  double bytes = number * unit_bytes(std::string_view(rest, static_cast<size_t>(end - rest)), text);
  expect<ValueError>(!std::signbit(number), "bytes", "a size cannot be negative, got '{}'", text);
  expect<ValueError>(bytes < 9223372036854775807.0, "bytes", "size '{}' is beyond 2^63 - 1 bytes",
                     text);
  expect<ValueError>(bytes >= 1 || number == 0, "bytes", "size '{}' is less than one byte", text);
  return static_cast<int64_t>(bytes);
}

std::string format_bytes(int64_t bytes) {
  static constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = std::abs(static_cast<double>(bytes));
  size_t unit = 0;
  // 1023.95 would print as "1024.0": go to the next unit before it does.
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= kKi;
    ++unit;
  }
  const char* sign = bytes < 0 ? "-" : "";
  std::string digits = fmt::format("{:.1f}", value);
  if (digits.ends_with(".0")) digits.resize(digits.size() - 2);
  return fmt::format("{}{} {}", sign, digits, kNames[unit]);
}

}  // namespace brim
