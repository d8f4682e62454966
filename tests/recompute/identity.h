// Whether a model trains to the same bits however little is kept for backward, in the bytes that
// were predicted: five updates in float32 and in float64, under every way of modes.h. Small models
// run each way under every planner in float32; else ways take the planners in turns. Under
// instrumentation (BRIM_SKIP_SLOW) the small ones run in turns, and the others not at all.
#pragma once

#include <string>

namespace brim::testing {

void check_identity(const std::string& model);

}  // namespace brim::testing
