// The backward pass of batch norm around a kernel that makes dy itself, some pixels at a time: the
// sums that it wants are taken, and dy goes through the activation, while it is in the cache
// (ops/cpu/normalized_depthwise_backward.cc). For a dy in memory launch
// `kernel::batch_norm_backward`.
#pragma once

#include <array>

#include "brim/core/launch.h"
#include "brim/ops/batch_norm.h"

namespace brim::cpu {

/// Of float32; in training, without a residual.
class NormBackward {
 public:
  struct Inputs {
    View x, weight, bias, mean, variance;
  };
  struct Outputs {
    View dx, dweight, dbias;  ///< the last two may be absent
  };
  /// Sums are kept for `pieces` of the pixels apart, and added up in order.
  NormBackward(const Inputs& in, const Outputs& out, const kernel::BatchNormAttributes& attributes,
               int64_t pieces, ScratchCursor& scratch);

  /// Once, first.
  void start();
  // For each piece, each by one thread: `clear`, then `add` for all of its pixels, then `flush`.
  void clear(int64_t piece);
  /// `dy` of elements [first, first + count) of x, whole pixels. From then on dx has the gradient
  /// of what went into the activation there.
  void add(int64_t piece, const float* dy, int64_t first, int64_t count);
  void flush(int64_t piece);
  /// All outputs.
  void finish();

 private:
  template <class Use>
  void with_backward(const Use& use);

  std::array<View, 8> in_;
  std::array<View, 4> out_;
  kernel::BatchNormAttributes attributes_;
  int64_t pieces_;
  int64_t* pending_;  ///< rows of each piece since its sums were emptied
  void* scratch_;
};

}  // namespace brim::cpu
