// A number by which damage to bytes is seen: bits that a disk or a copy changed, blocks that were
// never written. Anyone can make bytes with a given checksum: it does not tell a forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "brim/base/random.h"

namespace brim::io {

class Checksum {
 public:
  /// Depends on the lengths too: "ab" and "c" are not "a" and "bc".
  void add(std::span<const std::byte> bytes) {
    mix(bytes.size());
    uint64_t word = 0;
    for (; bytes.size() > sizeof word; bytes = bytes.subspan(sizeof word)) {
      std::memcpy(&word, bytes.data(), sizeof word);
      mix(word);
    }
    word = 0;
    if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
    mix(word);
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  uint64_t value() const { return state_; }

 private:
  // One to one in the word: whichever single word changes, the state does.
  void mix(uint64_t word) { state_ = mix64(state_ + 0x9E3779B97F4A7C15ull) ^ mix64(word); }

  uint64_t state_ = 0;
};

}  // namespace brim::io
