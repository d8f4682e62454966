// The name of a kernel and the type of its attributes: what a launch and the table of kernels
// (core/launch.h) agree on. Apart from those, so that a device's compiler need not read what a
// tensor is; everything else includes core/launch.h.
#pragma once

namespace brim {

/// Names a kernel and the struct of its attributes.
template <class Attributes>
struct Kernel {
  const char* name;
  /// The kernel reads its outputs before it writes them (accumulates, updates in place).
  bool updates = false;
};
struct NoAttributes {};

}  // namespace brim
