// What the programs print for people, so that output which is lost is an error: a full disk, a
// reader that is gone, a descriptor that the caller closed. Print with `std::cout` or `fmt::print`,
// flush where a line should be seen at once, and ask `check_output`; `run_program` asks at the end.
#pragma once

#include <string>
#include <string_view>

namespace brim::apps {

/// Flushes standard output. Throws `FileError` where some of what was printed was lost.
void check_output();

/// `text` as it may be shown: what is no UTF-8 in it, and control characters but for the ends of
/// lines and tabs, as \xNN.
std::string shown(std::string_view text);

/// Where the caller closed standard input, output or error, its number leads to what refuses all
/// reads and writes as a closed one does. Else the next file that is opened would have the number,
/// and receive what is printed.
void keep_standard_descriptors();

}  // namespace brim::apps
