// The name of a kernel and the type of its attributes: what a launch and the table of kernels
// (core/launch.h) agree on. Apart from those, so that a device's compiler need not read what a
// tensor is; everything else includes core/launch.h.
#pragma once

namespace brim {

/// Which buffers a kernel works on row by row, a bit for each input and output: rows of the first
/// dimension of all outputs follow from the same rows of those inputs, and from the other inputs
/// whole. Then it can be run on some rows at a time.
struct ByRows {
  unsigned in = 0, out = 0;
  bool flat = false;  ///< element by element: where all are contiguous, any stretch will do
};
inline constexpr ByRows kElementwise1{.in = 0b1, .out = 0b1, .flat = true},
    kElementwise2{.in = 0b11, .out = 0b1, .flat = true};

/// Names a kernel and the struct of its attributes.
template <class Attributes>
struct Kernel {
  const char* name;
  /// The kernel reads its outputs before it writes them (accumulates, updates in place).
  bool updates = false;
  ByRows by_rows = {};  ///< nothing: halves are widened as a whole (core/launch.h)
};
struct NoAttributes {};

}  // namespace brim
