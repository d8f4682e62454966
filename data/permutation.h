// A random order of n things in constant memory: a keyed bijection of [0, n), so that a folder
// of a million images is shuffled without an index array, and any position can be asked for.
//
// Method: a Feistel network over the smallest even number of bits that holds n, walked along its
// cycles until the value is below n (Black and Rogaway, "Ciphers with arbitrary finite domains",
// CT-RSA 2002). At most four steps on average. Statistical quality only: not for secrets.
#pragma once

#include <bit>
#include <cstdint>

#include "brim/base/error.h"
#include "brim/base/random.h"

namespace brim::data {

class Permutation {
 public:
  /// An order of `size` >= 0 things, at most 2^62, for each key.
  Permutation(int64_t size, RandomKey key) : size_(size), key_(key) {
    expect<ValueError>(size >= 0 && size <= int64_t{1} << 62, "permutation",
                       "expected a size between 0 and 2^62, got {}", size);
    const int bits = size > 1 ? std::bit_width(static_cast<uint64_t>(size - 1)) : 0;
    half_bits_ = (bits + 1) / 2;
    mask_ = (uint64_t{1} << half_bits_) - 1;
  }

  int64_t size() const { return size_; }

  /// What stands at `position`, in [0, size()).
  int64_t operator[](int64_t position) const {
    expect<ValueError>(position >= 0 && position < size_, "permutation",
                       "expected a position below {}, got {}", size_, position);
    uint64_t value = static_cast<uint64_t>(position);
    do value = encrypt(value);
    while (value >= static_cast<uint64_t>(size_));
    return static_cast<int64_t>(value);
  }

 private:
  // Four rounds are enough for random-looking output (Luby and Rackoff, 1988) on wide halves;
  // narrow ones, of a few bits, need more.
  static constexpr uint64_t kRounds = 8;

  uint64_t encrypt(uint64_t value) const {
    uint64_t left = value >> half_bits_, right = value & mask_;
    for (uint64_t round = 0; round < kRounds; ++round) {
      uint64_t mixed = left ^ (mix64(key_.value ^ mix64(right * kRounds + round)) & mask_);
      left = right;
      right = mixed;
    }
    return (left << half_bits_) | right;
  }

  int64_t size_;
  RandomKey key_;
  int half_bits_ = 0;
  uint64_t mask_ = 0;
};

}  // namespace brim::data
