// Lifetimes as text: what is written is read again, and whatever else is given is refused with the
// number of the line.
#include "brim/memory/plan/packing_csv.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

std::string refusal(std::string_view text) {
  return error_text<FileError>([&] { parse_packing_csv(text, "x.csv"); });
}

/// Of a row after a good one.
std::string row_refusal(const std::string& row) {
  std::string text = refusal("id,lower,upper,size\na,0,1,4\n" + row + "\n");
  REQUIRE(text.starts_with("packing csv: 'x.csv' line 3: "));
  return text.substr(std::string("packing csv: 'x.csv' line 3: ").size());
}

}  // namespace

TEST_CASE("rows are read and written") {
  PackingRows rows = parse_packing_csv("id,lower,upper,size\nb1,-3,4,5\nb 2,0,1,0\n", "x.csv");
  CHECK(rows.ids == std::vector<std::string>{"b1", "b 2"});
  CHECK(rows.lifetimes == std::vector<Lifetime>{{-3, 4, 5}, {0, 1, 0}});
  CHECK(format_packing_csv(rows) == "id,lower,upper,size\nb1,-3,4,5\nb 2,0,1,0\n");
  std::vector<int64_t> offsets{0, 7};
  CHECK(format_packing_csv(rows, offsets) ==
        "id,lower,upper,size,offset\nb1,-3,4,5,0\nb 2,0,1,0,7\n");
}

TEST_CASE("columns in another order, others, spaces, CRLF, empty lines and no last line end") {
  PackingRows rows = parse_packing_csv(
      "size, upper,note,id,lower\r\n\r\n 5,4,?, x ,-3\r\n  \r\n6,1,,y,0", "x.csv");
  CHECK(rows.ids == std::vector<std::string>{"x", "y"});
  CHECK(rows.lifetimes == std::vector<Lifetime>{{-3, 4, 5}, {0, 1, 6}});
}

TEST_CASE("a byte order mark in front is passed over, elsewhere it is a letter") {
  PackingRows rows = parse_packing_csv("\xEF\xBB\xBFid,lower,upper,size\nx,0,1,4\n", "x.csv");
  CHECK(rows.ids == std::vector<std::string>{"x"});
  CHECK(contains(refusal("\xEF\xBB\xBF\xEF\xBB\xBFid,lower,upper,size\nx,0,1,4\n"), "got no 'id'"));
}

TEST_CASE("a first line without the columns is refused") {
  CHECK(refusal("") ==
        "packing csv: 'x.csv' line 0: expected a line 'id,lower,upper,size', got an empty file");
  CHECK(refusal("id,lower,size\n") ==
        "packing csv: 'x.csv' line 1: expected the columns id, lower, upper and size, got no "
        "'upper'");
  CHECK(refusal("\nid,lower,upper,size,lower\n") ==
        "packing csv: 'x.csv' line 2: the column 'lower' is there twice");
  CHECK(refusal("id,lower,upper,size\n") == "packing csv: 'x.csv' has no rows");
}

TEST_CASE("a bad row is refused with its line") {
  CHECK(row_refusal("b,0,1") == "expected 4 fields, got 3");
  CHECK(row_refusal("b,0,1,4,5") == "expected 4 fields, got 5");
  CHECK(row_refusal("b,0,1,-4") == "expected a size from 0, got -4");
  CHECK(row_refusal("b,1,1,4") == "expected lower < upper, got 1 and 1");
  CHECK(row_refusal("b,2,1,4") == "expected lower < upper, got 2 and 1");
  CHECK(row_refusal("b,0,x,4") == "expected a whole number as upper, got 'x'");
  CHECK(row_refusal("b,0,1,4.5") == "expected a whole number as size, got '4.5'");
  CHECK(row_refusal("b,0,1,") == "expected a whole number as size, got ''");
  CHECK(row_refusal("b,0,1,9223372036854775808") == "size '9223372036854775808' is beyond 64 bits");
  CHECK(row_refusal("b,0,1,9223372036854775807") == "the sizes up to here add up to 2^63 or more");
  CHECK(row_refusal("a,0,1,4") == "the id 'a' is also on line 2");
  CHECK(row_refusal(",0,1,4") == "expected an id without quotes and control characters, got ''");
  CHECK(row_refusal("\"b\",0,1,4") ==
        "expected an id without quotes and control characters, got '\"b\"'");
  CHECK(row_refusal("b\x1b[2J,0,1,4") ==
        "expected an id without quotes and control characters, got control characters");
  CHECK(row_refusal("b,0,1," + std::string(100, '7')) ==
        "size '" + std::string(40, '7') + "..' is beyond 64 bits");
}

TEST_CASE("an id that would not be read again is not written") {
  for (const char* id : {"", "a,b", "a\n", " a", "a\"", "a\x7f"})
    CHECK(contains(error_text<ValueError>([&] {
                     format_packing_csv({.ids = {id}, .lifetimes = {{0, 1, 1}}});
                   }),
                   "packing csv: row 0: cannot write the id"));
}
