#include "brim/base/utf8.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace brim {
namespace {

/// First bytes from `first` to `last` begin a sequence of `size` bytes, the second of which is from
/// `low` to `high`; all others are from 80 to BF. Table 3-7 of the Unicode standard.
struct Sequences {
  unsigned char first, last;
  size_t size;
  unsigned char low, high;
};
constexpr std::array<Sequences, 9> kSequences{{{0x00, 0x7F, 1, 0x80, 0xBF},
                                               {0xC2, 0xDF, 2, 0x80, 0xBF},
                                               {0xE0, 0xE0, 3, 0xA0, 0xBF},
                                               {0xE1, 0xEC, 3, 0x80, 0xBF},
                                               {0xED, 0xED, 3, 0x80, 0x9F},
                                               {0xEE, 0xEF, 3, 0x80, 0xBF},
                                               {0xF0, 0xF0, 4, 0x90, 0xBF},
                                               {0xF1, 0xF3, 4, 0x80, 0xBF},
                                               {0xF4, 0xF4, 4, 0x80, 0x8F}}};

bool is_between(char byte, unsigned char low, unsigned char high) {
  auto value = static_cast<unsigned char>(byte);
  return value >= low && value <= high;
}

/// The size of the character that `text`, which is not empty, begins with; 0 where it begins with
/// none.
size_t bytes_of_character(std::string_view text) {
  for (const Sequences& kind : kSequences) {
    if (!is_between(text[0], kind.first, kind.last)) continue;
    if (text.size() < kind.size) return 0;
    if (kind.size > 1 && !is_between(text[1], kind.low, kind.high)) return 0;
    for (size_t i = 2; i < kind.size; ++i)
      if (!is_between(text[i], 0x80, 0xBF)) return 0;
    return kind.size;
  }
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = bytes_of_character(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string escaped_utf8(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const size_t bytes = bytes_of_character(text);
    if (bytes > 0)
      escaped += text.substr(0, bytes);
    else
      fmt::format_to(std::back_inserter(escaped), "\\x{:02X}",
                     static_cast<unsigned char>(text.front()));
    text.remove_prefix(bytes > 0 ? bytes : 1);
  }
  return escaped;
}

}  // namespace brim
