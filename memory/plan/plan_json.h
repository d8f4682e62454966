// A plan as text, so that a program which starts again need not rehearse again. The text of equal
// plans is the same, byte for byte. What is read is untrusted: a text that is damaged, of another
// version or for another question is refused with the reason, and the caller plans again.
#pragma once

#include <string>
#include <string_view>

#include "brim/memory/plan/plan.h"

namespace brim::memory {

/// What is not UTF-8 in the identity or a name is escaped (base/utf8.h).
std::string to_json(const Plan& plan);

/// The plan in `text`, which `to_json` wrote for this `identity`. Throws `FileError` otherwise, and
/// where offsets overlap, sizes do not add up or a number is out of its range.
Plan plan_from_json(std::string_view text, std::string_view identity);

}  // namespace brim::memory
