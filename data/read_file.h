// Reads a whole file that may come from anywhere: the path may name a folder, a device or a pipe,
// the size may be absurd, the file may shrink while it is read. Meant for files of some
// megabytes (images), not for larger ones: all of it is in memory at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim::data {

/// The bytes of the regular file at `path`, in `bytes`, whose capacity is used again. Throws
/// `FileError` naming the path when it cannot be opened, is no regular file, has more than
/// `max_bytes` bytes, or ends before its stated size. An empty file gives no bytes.
void read_file(const std::string& path, int64_t max_bytes, std::vector<uint8_t>& bytes);

/// The same, in a new vector.
std::vector<uint8_t> read_file(const std::string& path, int64_t max_bytes);

}  // namespace brim::data
