// A buffer of float32 or bfloat16 that a kernel computes with in float32, as optim/cpu/float_row.h
// is on the CPU: what is written to bfloat16 is rounded stochastically, with the same bits.
#pragma once

#include "brim/core/half.h"
#include "brim/core/launch.h"
#include "brim/optim/stochastic_rounding.h"

namespace brim::cuda {

/// Of T, or, where T is float, of bfloat16.
template <class T>
class FloatBuffer {
 public:
  FloatBuffer() = default;
  /// Of an absent view: null.
  explicit FloatBuffer(const View& view, const RandomKey& key = {})
      : wide_(view.present && view.dtype == dtype_of<T> ? view.as<T>() : nullptr),
        low_(view.present && view.dtype == Dtype::bfloat16 ? view.as<BFloat16>() : nullptr),
        key_(key) {}

  __device__ T read(int64_t i) const {
    return low_ == nullptr ? wide_[i] : static_cast<T>(convert<float>(low_[i]));
  }
  __device__ void write(int64_t i, T value, uint64_t update) const {
    if (low_ == nullptr) {
      wide_[i] = value;
      return;
    }
    const optim::RoundingStream stream{key_, update};
    low_[i] = optim::round_stochastically(static_cast<float>(value),
                                          stream.bits(static_cast<uint64_t>(i)));
  }

 private:
  T* wide_ = nullptr;
  BFloat16* low_ = nullptr;
  RandomKey key_ = {};
};

}  // namespace brim::cuda
