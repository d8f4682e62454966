// A stretch of a float32 or bfloat16 buffer as floats, for optimizers whose state, gradients or
// parameters are kept in bfloat16: they compute in float32, some hundred elements at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/core/half_simd.h"
#include "brim/core/launch.h"
#include "brim/optim/stochastic_rounding.h"

namespace brim::cpu {

/// Is a gradient, state or parameter of the call in bfloat16?
inline bool has_bfloat16(const KernelCall& call) {
  const auto is_low = [](const View& view) {
    return view.present && view.dtype == Dtype::bfloat16;
  };
  return is_low(call.in[0]) || std::ranges::any_of(call.out, is_low);
}

/// Of float32 or bfloat16: the other is null. Of an absent view both are.
struct FloatBuffer {
  explicit FloatBuffer(const View& view)
      : wide(view.present && view.dtype == Dtype::float32 ? view.as<float>() : nullptr),
        low(view.present && view.dtype == Dtype::bfloat16 ? view.as<BFloat16>() : nullptr) {}
  float* wide;
  BFloat16* low;
};

class FloatRow {
 public:
  static constexpr int64_t kMost =
      512;  // elements of a stretch; of several rows in the first cache

  explicit FloatRow(const FloatBuffer& buffer) : wide_(buffer.wide), low_(buffer.low) {}

  /// Elements [begin, begin + count): in place, or copied.
  float* read(int64_t begin, int64_t count) {
    if (low_ == nullptr) return wide_ == nullptr ? nullptr : wide_ + begin;
    convert_row(copy_, low_ + begin, count);
    return copy_;
  }
  /// Puts a copy's values back where `read` took them from.
  void write(int64_t begin, int64_t count, const optim::RoundingStream& rounding) {
    if (low_ == nullptr) return;
    auto element = static_cast<uint64_t>(begin);
    for (int64_t i = 0; i < count;) {
      const auto words = rounding.words(element / 8);
      for (uint64_t at = element % 8; at < 8 && i < count; ++at, ++i, ++element) {
        const uint32_t word = words[at / 2];
        low_[element] = optim::round_stochastically(
            copy_[i], static_cast<uint16_t>(at % 2 == 0 ? word : word >> 16));
      }
    }
  }

 private:
  float* wide_;
  BFloat16* low_;
  float copy_[kMost];
};

}  // namespace brim::cpu
