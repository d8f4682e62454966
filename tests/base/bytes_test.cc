#include "brim/base/bytes.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"

using namespace brim;

TEST_CASE("sizes parse with binary and decimal units") {
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("300MiB") == 300 * 1024 * 1024);
  CHECK(parse_bytes("1.5GB") == 1'500'000'000);
  CHECK(parse_bytes("1.5 gib") == 1'610'612'736);
  CHECK(parse_bytes("64k") == 64'000);
  CHECK(parse_bytes("0") == 0);
}

TEST_CASE("bad sizes are refused by name") {
  for (const char* text :
       {"", "-1", "-0", "MiB", "1.5 parsecs", "9e9", "0.5", "99999999TiB", "nan", "1 2"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_bytes(text), ValueError);
  }
}

TEST_CASE("sizes print with the unit that fits") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(300 << 20) == "300 MiB");
  CHECK(format_bytes((int64_t{1} << 30) - 1) == "1 GiB");
  CHECK(format_bytes(-2048) == "-2 KiB");
}

TEST_CASE("what is printed parses back to within its digits") {
  for (int64_t bytes = 1; bytes < (int64_t{1} << 50); bytes = bytes * 7 / 3 + 1) {
    double back = static_cast<double>(parse_bytes(format_bytes(bytes)));
    CHECK(back == doctest::Approx(static_cast<double>(bytes)).epsilon(0.05));
  }
}

TEST_CASE("rounding up to an alignment") {
  CHECK(round_up(0, 64) == 0);
  CHECK(round_up(1, 64) == 64);
  CHECK(round_up(64, 64) == 64);
}
