// Whether a string from a file can be shown to a person: short, and without the control characters
// by which a terminal could be made to lie. UTF-8 is taken for granted (JSON readers check it). For
// names that go into messages; bytes that nobody sees need no such check.
#pragma once

#include <cstddef>
#include <string_view>

namespace brim::io {

inline constexpr size_t kLongestName = 1000;

/// At most `kLongestName` bytes, none of U+0000 to U+001F and U+007F to U+009F.
inline bool is_plain_text(std::string_view text) {
  if (text.size() > kLongestName) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return false;
    // U+0080 to U+009F are the bytes C2 80 to C2 9F.
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0)
      return false;
  }
  return true;
}

}  // namespace brim::io
