// A height and a width: kernel sizes, strides, paddings. `3` stands for {3, 3}. The height comes
// first, as in [N,H,W,C] and in PyTorch's tuples. It has no default value, so that an option
// without one, such as the kernel of a pooling op, cannot be forgotten.
#pragma once

#include <cstdint>
#include <string>

#include "brim/base/text_formatter.h"

namespace brim {

struct Pair {
  int64_t h, w;

  // NOLINTNEXTLINE(google-explicit-constructor): `.kernel = 3` should read so.
  constexpr Pair(int64_t both) : h(both), w(both) {}
  constexpr Pair(int64_t h, int64_t w) : h(h), w(w) {}

  friend constexpr bool operator==(const Pair&, const Pair&) = default;
};

/// `[3,5]`.
inline std::string to_string(const Pair& pair) {
  return "[" + std::to_string(pair.h) + "," + std::to_string(pair.w) + "]";
}

}  // namespace brim

template <>
struct fmt::formatter<brim::Pair> : brim::TextFormatter<brim::Pair> {};
