// One model, whose name the target defines.
#include <doctest/doctest.h>

#include "brim/tests/recompute/identity.h"

TEST_CASE(BRIM_MODEL ": trains to the same bits however little is kept for backward") {
  brim::testing::check_identity(BRIM_MODEL);
}
