// What values a flag takes, said in --help and in the error for any other: each function gives a
// check for `Flag::check`. Numbers are decimal and written as they are printed, so that
// none is taken for another: 010 and 0,05 are refused, and what is beyond the range is not brought
// into it. What depends on other flags is checked where they are all known.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "brim/apps/support/app.h"

namespace brim::apps {

/// The most updates or epochs: more is a slip, and products of two stay within 64 bits.
inline constexpr int64_t kMostCount = 1'000'000'000;
/// The most images in a batch or an update: the bytes of a step with so many stay within 64 bits.
inline constexpr int64_t kMostImages = 1'000'000;
/// The most outputs that a model may have: names and rows for each are held.
inline constexpr int64_t kMostClasses = 1'000'000;

/// A whole number from `least` to `most`.
FlagCheck whole_number(int64_t least, int64_t most = kMostCount);

/// A whole number from 0 to 2^64 - 1.
FlagCheck seed_number();

/// As many threads as `brim::set_num_threads` takes.
FlagCheck thread_count();

struct NumberRange {
  double least = 0, most = 1;
  bool above_least = false, below_most = false;  ///< an end that is not itself in the range
};
FlagCheck number(const NumberRange& range);
/// Above 0 and up to 1e30, which also fits a float.
FlagCheck positive_number();

/// "300MiB", from `least` bytes.
FlagCheck byte_size(int64_t least);

/// One of these names; for another the nearest is told.
FlagCheck one_of(std::vector<std::string> names);
/// The name of a bundled model.
FlagCheck model_name();

/// Any name of a file or a folder but the empty one, which a variable without a value gives.
FlagCheck file_name();

/// What `parse` takes, which throws an `Error` for all else.
FlagCheck parsed_by(std::function<void(const std::string&)> parse);

/// `text` as a whole number from `least` to `most`; false for all else.
bool is_whole_number(const std::string& text, int64_t least, int64_t most);

}  // namespace brim::apps
