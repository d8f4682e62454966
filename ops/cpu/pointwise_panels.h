// The weights of a 1x1 convolution, packed for products of tiles (tile_product.h).
#pragma once

#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/tile_product.h"
#include "brim/ops/cpu/transpose.h"
#include "brim/ops/cpu/vector.h"

namespace brim::cpu::pointwise {

/// B [depth, outputs] in panels of columns, [panel][depth][column], zeros beyond the last output.
class Panels {
 public:
  Panels(int64_t depth, int64_t outputs, ScratchCursor& scratch)
      : depth_(depth),
        outputs_(outputs),
        vectors_(ceil_div(outputs, kWidth)),
        count_(ceil_div(vectors_, int64_t{tiles::kMostVectors})),
        data_(scratch.take<float>(depth * padded_outputs())) {}

  int64_t count() const { return count_; }
  int64_t padded_outputs() const { return vectors_ * kWidth; }
  int64_t begin(int64_t panel) const { return vectors_ * panel / count_ * kWidth; }
  int64_t width(int64_t panel) const { return begin(panel + 1) - begin(panel); }
  float* of(int64_t panel) const { return data_ + begin(panel) * depth_; }

  /// From rows of B.
  void pack(const float* b) const {
    parallel_for(count_ * depth_, kGrain / tiles::kPanel, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t panel = i / depth_, row = i % depth_;
        const int64_t at = begin(panel), count = std::min(width(panel), outputs_ - at);
        float* to = of(panel) + row * width(panel);
        std::copy_n(b + row * outputs_ + at, count, to);
        std::fill(to + count, to + width(panel), 0.0f);
      }
    });
  }

  /// From its columns: weight [output][depth].
  void pack_transposed(const float* weight) const {
    parallel_for(vectors_, kGrain / (depth_ * kWidth) + 1, [&](int64_t first, int64_t last) {
      for (int64_t v = first; v < last; ++v)
        for (int64_t row = 0; row < depth_; row += kWidth) pack_square(weight, v * kWidth, row);
    });
  }

 private:
  using V = Vector<float>;
  static constexpr int64_t kWidth = kLanes<V>;
  static constexpr int64_t kGrain = 16384;  ///< floats that repay a thread

  void pack_square(const float* weight, int64_t output, int64_t row) const {
    const int64_t count = std::min(kWidth, depth_ - row);
    V square[kWidth] = {};
    for (int64_t i = 0; i < std::min(kWidth, outputs_ - output); ++i) {
      const float* from = weight + (output + i) * depth_ + row;
      if (count == kWidth)
        square[i] = load<V>(from);
      else
        for (int64_t j = 0; j < count; ++j) square[i][j] = from[j];
    }
    transpose(square);
    const int64_t panel = panel_of(output);
    float* to = of(panel) + row * width(panel) + output - begin(panel);
    for (int64_t j = 0; j < count; ++j) store(to + j * width(panel), square[j]);
  }
  int64_t panel_of(int64_t output) const {
    int64_t panel = output / (tiles::kMostVectors * kWidth);
    while (begin(panel + 1) <= output) ++panel;
    return panel;
  }

  int64_t depth_, outputs_, vectors_, count_;
  float* data_;
};

}  // namespace brim::cpu::pointwise
