// Libraries are looked for when they are first used, and what is missing is said clearly.
#include "brim/base/cuda/library.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"

using namespace brim;

TEST_CASE("cuda library: one that is nowhere is named, with the places that were searched") {
  CHECK_THROWS_WITH_AS(cuda::Library("libbrim_has_no_such.so.7"),
                       doctest::Contains("cuda: cannot load libbrim_has_no_such.so.7 ("),
                       DeviceError);
  CHECK_THROWS_WITH_AS(cuda::Library("libbrim_has_no_such.so.7"),
                       doctest::Contains("looked where the system's loader does, "), DeviceError);
}

TEST_CASE("cuda library: functions are found by name, and a missing one is named") {
  cuda::Library library("libm.so.6");
  double (*square_root)(double) = nullptr;
  library.bind(square_root, "sqrt");
  CHECK(square_root(9) == 3);
  CHECK_THROWS_WITH_AS(library.bind(square_root, "brim_has_no_such"),
                       "cuda: libm.so.6 has no function brim_has_no_such: another version?",
                       DeviceError);
}
