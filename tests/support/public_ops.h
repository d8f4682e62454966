// The public ops, read from the sources: what a table with a line for each is held against. The
// test's data must have //ops:sources.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace brim::testing {

/// A folder of sources as the build hands them to a test: below the current folder or one above it.
/// Empty where it is not there.
std::filesystem::path source_folder(const std::filesystem::path& name);

std::string text_of(const std::filesystem::path& path);

/// Functions declared in ops/*.h that return tensors and end with the caller's line, `Where where`,
/// by name, with their headers. Not empty: throws `std::runtime_error` where they are not found.
std::map<std::string, std::string> public_ops();

}  // namespace brim::testing
