#include "brim/base/instructions.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"

using namespace brim;

namespace {

constexpr Instructions kLeast = Instructions::x86_64_v3;

}  // namespace

TEST_CASE("instructions: the best unless the environment names less") {
  CHECK(choose_instructions("", Instructions::x86_64_v3, kLeast) == Instructions::x86_64_v3);
  CHECK(choose_instructions("", Instructions::x86_64_v4, kLeast) == Instructions::x86_64_v4);
  CHECK(choose_instructions("x86-64-v3", Instructions::x86_64_v4, kLeast) ==
        Instructions::x86_64_v3);
  CHECK(choose_instructions("x86-64-v4", Instructions::x86_64_v4, kLeast) ==
        Instructions::x86_64_v4);
  CHECK(to_string(Instructions::x86_64_v3) == "x86-64-v3");
  CHECK(to_string(Instructions::x86_64_v4) == "x86-64-v4");
}

TEST_CASE("instructions: what is not known or not there is refused") {
  CHECK_THROWS_WITH_AS(choose_instructions("avx512", Instructions::x86_64_v4, kLeast),
                       "BRIM_INSTRUCTIONS: expected x86-64-v3 or x86-64-v4, got avx512",
                       ValueError);
  CHECK_THROWS_WITH_AS(choose_instructions("x86-64-v4", Instructions::x86_64_v3, kLeast),
                       "BRIM_INSTRUCTIONS: expected at most x86-64-v3, which this processor and "
                       "this build have, got x86-64-v4",
                       ValueError);
  CHECK_THROWS_WITH_AS(
      choose_instructions("x86-64-v3", Instructions::x86_64_v4, Instructions::x86_64_v4),
      "BRIM_INSTRUCTIONS: this build has kernels for x86-64-v4 alone, got x86-64-v3", ValueError);
}

TEST_CASE("instructions: a program works with what its processor has") {
  CHECK(instructions() <= best_instructions());
  CHECK(instructions() >= least_instructions());
}
