// The header of a safetensors file: JSON to checked descriptions of tensors, and back. Internal to
// safetensors.cc, which knows where in the file it lies. It is read token by token, never as a
// tree: a tree of small values takes many times the bytes of its text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brim/io/safetensors.h"

namespace brim::io {

inline constexpr const char* kSafetensorsTag = "safetensors";
inline constexpr int64_t kLongestHeader = 100'000'000;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< by name
  Metadata metadata;
};

/// Everything that `SafetensorsFile` promises to check. `data_bytes` follow the header in the
/// file, `path` is its name in errors.
SafetensorsHeader parse_header(std::string_view text, int64_t data_bytes, const std::string& path);

/// JSON of tensors in the order of their bytes, filled up with spaces to a multiple of 8. Throws
/// `ValueError` for what `parse_header` would refuse.
std::string format_header(std::span<const TensorInfo> tensors, const Metadata& metadata);

}  // namespace brim::io
