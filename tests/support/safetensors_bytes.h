// safetensors files put together from any header, for what a writer would never write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brim::testing {

/// The header's length, little-endian in eight bytes, the header, and `data` bytes 0, 1, 2, ...
inline std::vector<uint8_t> safetensors_bytes(std::string_view header, int data) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 8; ++i)
    bytes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(header.size()) >> (8 * i)));
  bytes.insert(bytes.end(), header.begin(), header.end());
  for (int i = 0; i < data; ++i) bytes.push_back(static_cast<uint8_t>(i));
  return bytes;
}

/// The header of two tensors of two bytes each, 'a' and 'b', that lie where these lists say.
inline std::string two_tensors(const std::string& a, const std::string& b) {
  return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a +
         R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}";
}

}  // namespace brim::testing
