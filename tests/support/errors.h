// The text of what a call throws, for tests that look for a part of it. For the whole text use
// doctest's CHECK_THROWS_WITH_AS; for ops the errors of an `OpSpec` (op_spec.h).
#pragma once

#include <string>
#include <string_view>

namespace brim::testing {

/// The text of the `E` that `body` throws; "" where it throws nothing. Other exceptions pass.
template <class E, class Body>
std::string error_text(const Body& body) {
  try {
    body();
    return "";
  } catch (const E& error) {
    return error.what();
  }
}

/// Without any of `part`, such as the path of a folder that is another each time.
inline std::string without(std::string text, std::string_view part) {
  for (size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
  return text;
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace brim::testing
