// The nearest of some known names to one that was mistyped, for error messages: append
// `did_you_mean` to the text. It is a hint to a person, never a name to go on with. The distance is
// Levenshtein's, letters of another case are other letters, and each call compares with every name:
// for the names of a model or the flags of a program, not for dictionaries.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "brim/base/text_formatter.h"

namespace brim {

/// The known name with the least edit distance (insertions, deletions, substitutions) to
/// `name`, or "" when none is within half of the longer one's length.
std::string nearest_name(std::string_view name, std::span<const std::string> known);

/// Compares when it is written, not when it is made: as an argument of `expect` it costs nothing.
/// It refers to what it is made of, so it is not to be kept.
struct DidYouMean {
  std::string_view name;
  std::span<const std::string> known;
};
inline DidYouMean did_you_mean(std::string_view name, std::span<const std::string> known) {
  return {name, known};
}
/// "; did you mean 'x'?" or "".
std::string to_string(const DidYouMean& suggestion);

}  // namespace brim

template <>
struct fmt::formatter<brim::DidYouMean> : brim::TextFormatter<brim::DidYouMean> {};
