// npy files put together from any header, for what `io::write_npy` would never write: other orders,
// versions and element types, and headers that break the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brim::testing {

/// An npy file of this header, as it stands, with `data` bytes 0, 1, 2, ...
inline std::vector<uint8_t> npy_bytes(std::string_view header, int data, int version = 1) {
  std::vector<uint8_t> bytes{0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<uint8_t>(version), 0};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    bytes.push_back(static_cast<uint8_t>(header.size() >> (8 * i)));
  bytes.insert(bytes.end(), header.begin(), header.end());
  for (int i = 0; i < data; ++i) bytes.push_back(static_cast<uint8_t>(i));
  return bytes;
}

/// A header of these literals of Python.
inline std::string npy_dict(const std::string& descr, const std::string& shape,
                            const std::string& fortran = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

}  // namespace brim::testing
