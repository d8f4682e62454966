// The header of an npy file, a literal of a Python dict:
//
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//
// Read by a parser for exactly these three entries, in any order. Internal to npy.cc.
#pragma once

#include <string>
#include <string_view>

#include "brim/core/dtype.h"
#include "brim/core/shape.h"

namespace brim::io {

inline constexpr const char* kNpyTag = "npy";

struct NpyHeader {
  Dtype dtype = Dtype::float32;
  bool fortran_order = false;
  Shape shape;
};

/// Throws `FileError` naming `path` and what is wrong.
NpyHeader parse_npy_header(std::string_view text, const std::string& path);

/// Throws `DtypeError` for a dtype that NumPy has not.
std::string format_npy_header(const NpyHeader& header);

}  // namespace brim::io
