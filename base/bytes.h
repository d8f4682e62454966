// Byte sizes that people read and write: "300MiB", "1.5GB", "4096". Powers of two have an "i",
// units without it are powers of 1000, and upper and lower case are the same. Printing rounds to a
// decimal, so what other programs read should be the plain number. The two roundings of whole
// numbers below are here because sizes need them most.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace brim {

/// Parses a size such as `300MiB`, `1.5 GB`, `64k` (= 64,000) or `4096` into bytes.
/// Throws `ValueError` for anything negative, fractional below one byte, or beyond 2^63 - 1.
int64_t parse_bytes(std::string_view text);

/// Prints bytes with binary units and at most one decimal: `0 B`, `1.5 KiB`, `300 MiB`.
std::string format_bytes(int64_t bytes);

/// a / b rounded up, for a from 0 and b above 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rounds `bytes` up to a multiple of `alignment`, a power of two.
constexpr int64_t round_up(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

}  // namespace brim
