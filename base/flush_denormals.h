// Subnormal numbers ("denormals") lie between 0 and a format's smallest normal number, 1.2e-38 in
// float32. Some processors take a hundred cycles for an instruction that meets one, and gradients
// of a network that has learned its batch, or momenta of weights that nothing changes any more, are
// full of them: a step may take ten times as long. Nothing is learned from them, so kernels on the
// CPU read them as 0 and write 0 in their place, on every thread and with all instructions.
#pragma once

#include <xmmintrin.h>

namespace brim {

/// While it lives, arithmetic of this thread in float32 and float64 does so (the bits FTZ and DAZ
/// of MXCSR); for good where it does not `end`. Conversions between float32 and float16 keep the
/// subnormal numbers of float16. Threads that are made meanwhile begin like this one, and stay so.
class FlushDenormals {
 public:
  explicit FlushDenormals(bool ends = true) : after_(ends ? bits() : kBits) { set(kBits); }
  ~FlushDenormals() { set(after_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

  static bool is_on() { return bits() == kBits; }

 private:
  static constexpr unsigned kBits = 0x8040;
  static unsigned bits() { return _mm_getcsr() & kBits; }
  static void set(unsigned bits) { _mm_setcsr((_mm_getcsr() & ~kBits) | bits); }

  unsigned after_;
};

}  // namespace brim
