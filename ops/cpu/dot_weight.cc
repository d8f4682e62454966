#include "brim/ops/cpu/dot_weight.h"

#include "brim/ops/cpu/image_pairs.h"

#ifdef __AVX512BW__

#include <algorithm>
#include <cstring>

#include "brim/base/bytes.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/affordable.h"
#include "brim/ops/onednn.h"

namespace brim::cpu {
namespace {

using Twice = uint32_t;                                         // the same element of two images
constexpr int64_t kWidth = 16, kMostVectors = 4, kOutputs = 4;  // of a tile

/// How images are copied: so many pairs of them at a time.
struct Cut {
  PairBlocks blocks;
  int64_t vectors, panels, tiles;  ///< the first two of channels, the last of outputs
  int64_t step_h, step_w;          ///< between pixels of x that are copied
  int64_t stride_h, stride_w;      ///< of the windows over what was copied
  int64_t x_rows, x_columns;       ///< of a pair of images
  int64_t panel_step, tile_step;   ///< in pairs of numbers, from one to the next

  explicit Cut(const ConvShape& z)
      : vectors(ceil_div(z.c, kWidth)),
        panels(ceil_div(vectors, kMostVectors)),
        tiles(ceil_div(z.k, kOutputs)) {
    // Of a window of one pixel the others are left out.
    const bool one_tap = z.r == 1 && z.s == 1;
    step_h = one_tap ? z.stride.h : 1, step_w = one_tap ? z.stride.w : 1;
    stride_h = z.stride.h / step_h, stride_w = z.stride.w / step_w;
    x_rows = (z.p - 1) * stride_h + (z.r - 1) * z.dilation.h + 1;
    x_columns = (z.q - 1) * stride_w + (z.s - 1) * z.dilation.w + 1;
    const int64_t numbers = x_rows * x_columns * z.c + z.p * z.q * z.k;
    blocks = {z.n, numbers};
    // A line more, so that panels do not compete for the same lines of a cache.
    panel_step = blocks.size * x_rows * x_columns * kMostVectors * kWidth + kWidth;
    tile_step = blocks.size * z.p * z.q * kOutputs + kWidth;
  }

  int64_t first_vector(int64_t panel) const { return vectors * panel / panels; }
};

/// Where a block is copied to.
struct Copies {
  Twice *x, *dy;
  Copies(const Cut& cut, ScratchCursor& cursor)
      : x(cursor.take<Twice>(cut.panels * cut.panel_step)),
        dy(cursor.take<Twice>(cut.tiles * cut.tile_step)) {}
};

/// The gradient of one convolution.
class DotWeight {
  using V = Vector<float>;

 public:
  DotWeight(const ConvShape& shape, void* scratch)
      : z_(shape),
        cut_(shape),
        cursor_(scratch),
        places_(cut_.blocks.places<Copies>([this] { return Copies(cut_, cursor_); })) {}

  int64_t scratch_bytes() const { return cursor_.used(); }

  void run(const BFloat16* x, const BFloat16* dy, float* dweight) {
    x_ = x, dy_ = dy;
    cut_.blocks.each(
        places_,
        [this](const Block& block, const Copies& to, const Share& share) {
          copy(block, to, share);
        },
        [&](const Block& block, const Copies& from, const Share& share, bool adds) {
          multiply(block, from, share, adds, dweight);
        });
  }

 private:
  using Block = PairBlocks::Block;

  void copy(const Block& block, const Copies& to, const Share& share) const {
    const int64_t x_rows = block.count * cut_.x_rows, dy_rows = block.count * z_.p;
    for (int64_t i = share.begin(x_rows); i < share.end(x_rows); ++i) copy_row_of_x(block, i, to.x);
    for (int64_t i = share.begin(dy_rows); i < share.end(dy_rows); ++i)
      copy_row_of_dy(block, i, to.dy);
  }

  void multiply(const Block& block, const Copies& copies, const Share& share, bool adds,
                float* sums) const {
    const int64_t count = cut_.panels * cut_.tiles;
    for (int64_t i = share.begin(count); i < share.end(count); ++i)
      multiply_panel<kMostVectors>(block, copies, i / cut_.tiles, i % cut_.tiles, adds, sums);
  }

  /// Row i of the block's x: zeros outside of the image.
  void copy_row_of_x(const Block& block, int64_t i, Twice* x_pairs) const {
    const int64_t pair = block.begin + i / cut_.x_rows;
    const int64_t row = i % cut_.x_rows * cut_.step_h - z_.padding.h;
    const bool exists = row >= 0 && row < z_.h;
    const ImageRows rows =
        exists ? image_rows(x_, z_.n, pair, z_.h, row, z_.w * z_.c) : ImageRows{};
    for (int64_t j = 0; j < cut_.x_columns; ++j) {
      const int64_t column = j * cut_.step_w - z_.padding.w;
      const bool is_inside = exists && column >= 0 && column < z_.w;
      const int64_t at = column * z_.c;
      for (int64_t panel = 0; panel < cut_.panels; ++panel) {
        const int64_t v0 = cut_.first_vector(panel), width = cut_.first_vector(panel + 1) - v0;
        Twice* to = x_pairs + panel * cut_.panel_step + (i * cut_.x_columns + j) * width * kWidth;
        const int64_t c = v0 * kWidth, count = std::min(width * kWidth, z_.c - c);
        if (is_inside)
          for_pairs(rows.at(at + c), count, [&](int64_t v, Pairs pairs) { store(to + v, pairs); });
        else
          std::fill_n(to, width * kWidth, Twice{0});
      }
    }
  }

  void copy_row_of_dy(const Block& block, int64_t i, Twice* to) const {
    const int64_t pair = block.begin + i / z_.p, row = i % z_.p;
    const ImageRows rows = image_rows(dy_, z_.n, pair, z_.p, row, z_.q * z_.k);
    for (int64_t q = 0; q < z_.q; ++q)
      for_pairs(rows.at(q * z_.k), z_.k, [&](int64_t k, Pairs pairs) {
        store_tiles(pairs, k / kOutputs, to + (i * z_.q + q) * kOutputs);
      });
  }
  /// Each four of the 16 outputs go to a tile.
  void store_tiles(Pairs all, int64_t tile, Twice* to) const {
    const int64_t count = cut_.tiles - tile;
    to += tile * cut_.tile_step;
    const auto put = [&](int64_t i, const auto& outputs) {
      if (i < count) std::memcpy(to + i * cut_.tile_step, &outputs, sizeof(outputs));
    };
    put(0, __builtin_shufflevector(all, all, 0, 1, 2, 3));
    put(1, __builtin_shufflevector(all, all, 4, 5, 6, 7));
    put(2, __builtin_shufflevector(all, all, 8, 9, 10, 11));
    put(3, __builtin_shufflevector(all, all, 12, 13, 14, 15));
  }

  template <int kVectors>
  void multiply_panel(const Block& block, const Copies& copies, int64_t panel, int64_t tile,
                      bool adds, float* to_all) const {
    const int64_t v0 = cut_.first_vector(panel), width = cut_.first_vector(panel + 1) - v0;
    if constexpr (kVectors > 1)
      if (width < kVectors)
        return multiply_panel<kVectors - 1>(block, copies, panel, tile, adds, to_all);
    for (int64_t r = 0; r < z_.r; ++r)
      for (int64_t s = 0; s < z_.s; ++s) {
        const int64_t outputs = std::min(kOutputs, z_.k - tile * kOutputs);
        float* to = to_all + (tile * kOutputs * z_.r * z_.s + r * z_.s + s) * z_.c + v0 * kWidth;
        // What has to be there when the sums are.
        for (int64_t i = 0; i < outputs; ++i) prefetch(to + i * z_.window(), kVectors * kWidth);
        V sums[kOutputs][kVectors] = {};
        sum_tap<kVectors>(block, copies, panel, tile, r, s, sums);
        for (int64_t i = 0; i < outputs; ++i)
          for (int v = 0; v < kVectors; ++v)
            put_sums(to + i * z_.window() + v * kWidth, z_.c - (v0 + v) * kWidth, sums[i][v], adds);
      }
  }

  /// Adds up a tile over the pixels of a block, of one tap.
  template <int kVectors>
  void sum_tap(const Block& block, const Copies& copies, int64_t panel, int64_t tile, int64_t r,
               int64_t s, V (&sums)[kOutputs][kVectors]) const {
    constexpr int64_t kPixel = kVectors * kWidth;
    const Twice* x = copies.x + panel * cut_.panel_step +
                     (r * z_.dilation.h * cut_.x_columns + s * z_.dilation.w) * kPixel;
    const Twice* dy = copies.dy + tile * cut_.tile_step;
    // All pixels of a window of one tap lie side by side.
    const bool dense = cut_.x_columns == z_.q && cut_.x_rows == z_.p;
    const int64_t runs = dense ? 1 : block.count * z_.p;
    const int64_t length = dense ? block.count * z_.p * z_.q : z_.q;
    for (int64_t run = 0; run < runs; ++run) {
      const int64_t pair = run / z_.p, row = run % z_.p;
      const Twice* at = x + (pair * cut_.x_rows + row * cut_.stride_h) * cut_.x_columns * kPixel;
      for (int64_t i = 0; i < length; ++i, at += cut_.stride_w * kPixel, dy += kOutputs) {
        Pairs here[kVectors];
        for (int v = 0; v < kVectors; ++v) here[v] = load<Pairs>(at + v * kWidth);
        for (int64_t k = 0; k < kOutputs; ++k) {
          const Pairs gradient = dy[k] - Pairs{};
          for (int v = 0; v < kVectors; ++v)
            sums[k][v] = add_products(sums[k][v], here[v], gradient);
        }
      }
    }
  }

  ConvShape z_;
  Cut cut_;
  ScratchCursor cursor_;
  std::array<Copies, 2> places_;
  const BFloat16 *x_ = nullptr, *dy_ = nullptr;
};

}  // namespace

bool has_dot_weight(const ConvShape& shape) {
  constexpr int64_t kFewestImages = 8, kMostOfImage = 64, kFewest = 512;  // pixels
  return shape.groups == 1 && shape.n >= kFewestImages && shape.p * shape.q <= kMostOfImage &&
         shape.pixels() >= kFewest && std::min(shape.c, shape.k) >= kWidth && shape.window() > 0 &&
         is_affordable(shape, dot_backward_weight_scratch(shape)) && onednn::has_bfloat16() &&
         !onednn::has_tiles();
}

int64_t dot_backward_weight_scratch(const ConvShape& shape) {
  return DotWeight(shape, nullptr).scratch_bytes();
}

void dot_backward_weight(const ConvShape& shape, const BFloat16* x, const BFloat16* dy,
                         float* dweight, void* scratch) {
  DotWeight(shape, scratch).run(x, dy, dweight);
}

}  // namespace brim::cpu

#else

namespace brim::cpu {

bool has_dot_weight(const ConvShape&) { return false; }
int64_t dot_backward_weight_scratch(const ConvShape&) { return 0; }
void dot_backward_weight(const ConvShape&, const BFloat16*, const BFloat16*, float*, void*) {
  check(false, "no dot products of pairs");
}

}  // namespace brim::cpu

#endif
