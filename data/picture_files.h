// Pictures by the names of their files, below a folder and all that is in it. What is hidden (a
// name that starts with a dot) and what other systems leave beside pictures (__MACOSX) is no part
// of a data set; every other file that is left out is counted by its kind, so that a person can be
// told. What is in a file is not looked at: see `data/decode.h`. Internal to `data/image_folder.h`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace brim::data {

/// How many files were left out of each kind: ".webp", "without an ending".
using LeftOut = std::map<std::string, int64_t>;

/// Every ending that a picture may have, in whatever case: ".jpg, .jpeg, ...".
extern const char* const kPictureEndings;

/// Calls `take` with the path, relative to `folder`, of each picture below it, in no order. Links
/// are followed. Throws `FileError` naming a folder that cannot be read, a link that leads nowhere,
/// and a link that leads back to a folder that it is in.
void find_pictures(const std::string& folder, LeftOut& left_out,
                   const std::function<void(std::string_view path)>& take);

/// The names of the folders that are directly in `folder`, sorted by their bytes; files beside them
/// are counted as left out. Throws as `find_pictures`.
std::vector<std::string> find_folders(const std::string& folder, LeftOut& left_out);

/// "32 files: 20 .webp, 12 .gif", the most first; "" where there are none.
std::string describe(const LeftOut& left_out);

}  // namespace brim::data
