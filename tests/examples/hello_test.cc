#include <doctest/doctest.h>

#include "brim/tests/support/subprocess.h"

TEST_CASE("hello finds the line") {
  brim::testing::Finished run = brim::testing::run_command("examples/hello");
  CHECK(run.code == 0);
  CHECK(run.out.find("y = 2.000 x + 1.000, loss") == 0);
}
