// Moves between a planner under test and brim's own ones, by an account that holds something
// (`Account::replan`): the last part of `check_planner`.
#pragma once

#include "brim/memory/conformance.h"

namespace brim::memory::conformance {

/// Throws `ConformanceError` where a value, a number or a byte is lost.
void check_moves(const MakePlanner& make_planner, const ConformanceOptions& options,
                 const Pages& pages);

}  // namespace brim::memory::conformance
