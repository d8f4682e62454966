#include "brim/base/utf8.h"

#include <doctest/doctest.h>

using namespace brim;

TEST_CASE("text that is UTF-8 stays as it is, a backslash too") {
  for (const char* text : {"", "a/b.jpg", "\\x41", "K\xC3\xA4tzchen", "\xE7\x8C\xAB",
                           "\xF0\x9F\x90\x88", "\xEF\xBB\xBF", "\xF4\x8F\xBF\xBF"}) {
    CAPTURE(text);
    CHECK(is_utf8(text));
    CHECK(escaped_utf8(text) == text);
  }
  CHECK(is_utf8(std::string_view("a\0b", 3)));
}

TEST_CASE("each byte that is part of no UTF-8 is written by its number") {
  CHECK(escaped_utf8("caf\xE9.jpg") == "caf\\xE9.jpg");               // Latin-1
  CHECK(escaped_utf8("\xC0\xAF") == "\\xC0\\xAF");                    // overlong
  CHECK(escaped_utf8("\xE0\x80\xAF") == "\\xE0\\x80\\xAF");           // overlong
  CHECK(escaped_utf8("\xED\xA0\x80") == "\\xED\\xA0\\x80");           // a surrogate
  CHECK(escaped_utf8("\xF4\x90\x80\x80") == "\\xF4\\x90\\x80\\x80");  // above U+10FFFF
  CHECK(escaped_utf8("a\xE7\x8C") == "a\\xE7\\x8C");                  // ends too early
  CHECK(escaped_utf8("\xC3(") == "\\xC3(");
  CHECK(escaped_utf8("\x80\xC3\xA4\xFF") == "\\x80\xC3\xA4\\xFF");
}

TEST_CASE("what is escaped is UTF-8, and escaping it again changes nothing") {
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second) {
      const std::string text{static_cast<char>(first), static_cast<char>(second), '\x80'};
      const std::string escaped = escaped_utf8(text);
      REQUIRE(is_utf8(escaped));
      REQUIRE(escaped_utf8(escaped) == escaped);
      REQUIRE(is_utf8(text) == (escaped == text));
    }
}
