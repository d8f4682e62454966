// Whether a budget is a limit for a model: for six of them, or twenty of a small one's, from the
// least bytes that recompute plans reach to those of keeping everything, what was predicted is what
// a run of two steps holds, to the byte, and never more than the budget; and below the least it is
// refused with that number. Under instrumentation (BRIM_SKIP_SLOW) three budgets, of small models.
#pragma once

#include <string>

namespace brim::testing {

void check_budgets(const std::string& model);

}  // namespace brim::testing
