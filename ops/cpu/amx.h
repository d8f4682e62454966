// Tiles of the processor's matrix unit (AMX): eight registers of 16 rows of 64 bytes. One
// instruction multiplies a tile of 16 rows of 16 pairs of bfloat16 with one of 16 rows of pairs,
// and adds the products of both numbers of each pair to a tile of 16x16 floats:
//
//     sum[m][n] += a[m][i].first * b[i][n].first + a[m][i].second * b[i][n].second, i in 0..15
//
// Not the intrinsics, which are for functions compiled for such processors alone.
#pragma once

#include <cstdint>

namespace brim::cpu::amx {

inline constexpr int64_t kRows = 16;                ///< of a tile, and numbers or pairs in a row
inline constexpr int64_t kNumbers = kRows * kRows;  ///< of a tile
inline constexpr int64_t kRowBytes = 64;

/// Has this processor tiles, and does the system let this process use them?
bool is_there();

/// What `ldtilecfg` reads: palette 1, and the size of each tile.
struct alignas(64) Config {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {kRowBytes, kRowBytes, kRowBytes, kRowBytes,
                            kRowBytes, kRowBytes, kRowBytes, kRowBytes};
  uint8_t rows[16] = {kRows, kRows, kRows, kRows, kRows, kRows, kRows, kRows};
};

/// While it lives, this thread has the tiles, all of full size.
class Scope {
 public:
  Scope() {
    const Config config;
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  ~Scope() { asm volatile("tilerelease"); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

template <int kTile>
inline void zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
/// 16 rows, each `row_step` bytes behind the one before.
template <int kTile>
inline void load(const void* from, int64_t row_step = kRowBytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row_step), "i"(kTile) : "memory");
}
template <int kTile>
inline void store(void* to, int64_t row_step = kRowBytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(row_step), "i"(kTile) : "memory");
}
template <int kSum, int kA, int kB>
inline void multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}

}  // namespace brim::cpu::amx
