// Lifetimes as text, in the form that packing problems are published in: a line
// `id,lower,upper,size` that names the columns, then a line for each buffer. The text may come from
// anywhere, so all of it is checked. Reading and writing the file itself is for io/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brim/memory/plan/lifetime.h"
#include "brim/memory/trace.h"

namespace brim::memory {

struct PackingRows {
  std::vector<std::string> ids;
  std::vector<Lifetime> lifetimes;  ///< as many
};

/// Reads the four columns, in any order, and passes over others, empty lines and a byte order mark
/// in front. Lines may end in CRLF; there are no quotes, so an id has no comma. Throws `FileError`
/// with `path` and the number of the line for a column that is missing or there twice, a line with
/// another number of fields, anything but whole numbers of 64 bits, lower >= upper, a size below 0,
/// sizes that add up to 2^63 or more, an id that is empty, has control characters or is there
/// twice; and for no rows.
PackingRows parse_packing_csv(std::string_view text, const std::string& path);

/// The same rows; with offsets, which are then as many, under a fifth column `offset`. Throws
/// `ValueError` for an id that would not be read as it is.
std::string format_packing_csv(const PackingRows& rows, std::span<const int64_t> offsets = {});

/// The lifetimes of a recording; ids are the numbers of its buffers.
PackingRows packing_rows(const Trace& trace);

}  // namespace brim::memory
