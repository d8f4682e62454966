// Lets fmt write a value as its `to_string`, so that the arguments of `expect` (error.h) become text
// only where it fails: these checks stand in the way of every op.
//
//   template <>
//   struct fmt::formatter<brim::Device> : brim::TextFormatter<brim::Device> {};
#pragma once

#include <fmt/core.h>

#include <algorithm>

namespace brim {

/// Of a T with a `to_string` in its namespace. Takes no format but "{}".
template <class T>
struct TextFormatter {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(const T& value, fmt::format_context& context) const {
    const auto text = to_string(value);
    return std::copy(text.begin(), text.end(), context.out());
  }
};

}  // namespace brim
