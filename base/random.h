// Counter-based random numbers: a value is a pure function of its address, so there is no state
// to save, and the same address gives the same value on every device, thread and run.
//
// Method: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). Not for cryptography.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "brim/base/box_muller.h"
#include "brim/base/host_device.h"

namespace brim {

/// A stream of random numbers. Derive one key per use, never share a key between two uses.
struct RandomKey {
  uint64_t value = 0;
  friend constexpr bool operator==(RandomKey, RandomKey) = default;
};

/// Mixes 64 bits so that every input bit reaches every output bit (the SplitMix64 finaliser).
constexpr uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// A key of its own for each (key, number).
constexpr RandomKey derive(RandomKey key, uint64_t number) {
  return {mix64(mix64(key.value + 0x9E3779B97F4A7C15ull) ^ (number + 0xD1B54A32D192ED03ull))};
}

/// FNV-1a over the bytes of a name.
constexpr uint64_t hash_of(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return hash;
}

/// A key of its own for each (key, name).
constexpr RandomKey derive(RandomKey key, std::string_view name) {
  return derive(key, hash_of(name));
}

/// The key of a call in an update: of call `ordinal` to what `call` is the hash of.
constexpr RandomKey call_key(uint64_t seed, uint64_t update, uint64_t call, uint64_t ordinal) {
  return derive(derive(derive(RandomKey{seed}, update), call), ordinal);
}

/// A `call_key` whose update is a number in the device's memory, which a kernel reads as it runs:
/// for kernels that are recorded in one update and run in others (base/cuda/graph.h).
struct LiveKey {
  const double* update = nullptr;  ///< null: there is none, the key is known
  uint64_t seed = 0, call = 0, ordinal = 0;

  BRIM_HOST_DEVICE RandomKey key_or(RandomKey known) const {
    if (update == nullptr) return known;
    return call_key(seed, static_cast<uint64_t>(*update), call, ordinal);
  }
};

/// One of Philox's rounds; from one to the next its key goes on by the two steps.
constexpr void philox_round(uint32_t& x0, uint32_t& x1, uint32_t& x2, uint32_t& x3, uint32_t k0,
                            uint32_t k1) {
  const uint64_t a = uint64_t{0xD2511F53u} * x0, b = uint64_t{0xCD9E8D57u} * x2;
  x0 = static_cast<uint32_t>(b >> 32) ^ x1 ^ k0;
  x1 = static_cast<uint32_t>(b);
  x2 = static_cast<uint32_t>(a >> 32) ^ x3 ^ k1;
  x3 = static_cast<uint32_t>(a);
}
inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxStep0 = 0x9E3779B9u, kPhiloxStep1 = 0xBB67AE85u;

/// The 128 bits at counter (high, low) of the stream `key`.
constexpr std::array<uint32_t, 4> philox(RandomKey key, uint64_t high, uint64_t low) {
  uint32_t x0 = static_cast<uint32_t>(low), x1 = static_cast<uint32_t>(low >> 32);
  uint32_t x2 = static_cast<uint32_t>(high), x3 = static_cast<uint32_t>(high >> 32);
  uint32_t k0 = static_cast<uint32_t>(key.value), k1 = static_cast<uint32_t>(key.value >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    philox_round(x0, x1, x2, x3, k0, k1);
    k0 += kPhiloxStep0;
    k1 += kPhiloxStep1;
  }
  return {x0, x1, x2, x3};
}

/// The random 32 bits of element `element` of sample `sample`.
constexpr uint32_t random_bits(RandomKey key, uint64_t sample, uint64_t element) {
  return philox(key, sample, element >> 2)[element & 3];
}

/// 32 bits to [0, 1), exact in float: the top 24 bits.
constexpr float to_uniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1.0p-24f; }

/// Uniform in [0, 1).
constexpr float random_uniform(RandomKey key, uint64_t sample, uint64_t element) {
  return to_uniform(random_bits(key, sample, element));
}

/// Standard normal: `box_muller` (box_muller.h) of two of the four words of a counter.
BRIM_HOST_DEVICE inline float random_normal(RandomKey key, uint64_t sample, uint64_t element) {
  const auto words = philox(key, sample, element >> 1);
  const size_t first = (element & 1) * 2;
  return box_muller(words[first], words[first + 1]);
}

/// A sequential view of a stream, for code that draws as it goes (augmentation, shuffling).
class RandomStream {
 public:
  explicit RandomStream(RandomKey key, uint64_t sample = 0) : key_(key), sample_(sample) {}
  uint32_t bits() { return random_bits(key_, sample_, next_++); }
  /// Uniform in [0, 1).
  float uniform() { return to_uniform(bits()); }
  /// Uniform in [low, high).
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// Uniform whole number in [0, n); the bias is below n / 2^64.
  uint64_t below(uint64_t n) {
    uint64_t high = bits(), word = high << 32 | bits();
    return static_cast<uint64_t>((static_cast<unsigned __int128>(word) * n) >> 64);
  }

 private:
  RandomKey key_;
  uint64_t sample_, next_ = 0;
};

}  // namespace brim
