// One model, whose name the target defines.
#include <doctest/doctest.h>

#include "brim/tests/recompute/budgets.h"

TEST_CASE(BRIM_MODEL ": budgets are limits, and bytes below the least are refused") {
  brim::testing::check_budgets(BRIM_MODEL);
}
