// The nearest of some known names to one that was mistyped, for error messages: append
// `did_you_mean` to the text. It is a hint to a person, never a name to go on with. The distance is
// Levenshtein's, letters of another case are other letters, and each call compares with every name:
// for the names of a model or the flags of a program, not for dictionaries.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace brim {

/// The known name with the least edit distance (insertions, deletions, substitutions) to
/// `name`, or "" when none is within half of the longer one's length.
std::string nearest_name(std::string_view name, std::span<const std::string> known);

/// "; did you mean 'x'?" or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> known);

}  // namespace brim
