#include "brim/ops/cpu/amx_weight.h"

#include "brim/ops/cpu/image_pairs.h"

#ifdef __AVX512BW__

#include <algorithm>
#include <array>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/affordable.h"
#include "brim/ops/cpu/amx.h"
#include "brim/ops/cpu/transpose.h"

namespace brim::cpu {
namespace {

constexpr int64_t kWidth = amx::kRows;

/// The images of a batch in twos, so many of these at a time.
struct PairBlocks {
  int64_t pairs = 0;  ///< of all images
  int64_t size = 0;   ///< pairs of a block; the last may have fewer
  int64_t count = 0;  ///< of blocks

  PairBlocks() = default;
  /// `numbers`: of a pair of images, which are copied. A block has 3 MiB of them.
  PairBlocks(int64_t images, int64_t numbers) : pairs(ceil_div(images, 2)) {
    constexpr int64_t kNumbers = 768 << 10;
    size = ceil_div(pairs, ceil_div(pairs, std::clamp<int64_t>(kNumbers / numbers, 1, pairs)));
    count = ceil_div(pairs, size);
  }

  struct Block {
    int64_t begin, count;
  };
  Block block(int64_t i) const { return {i * size, std::min(size, pairs - i * size)}; }

  /// Where blocks are copied to by turns: the second is a place of its own where there is a second
  /// block.
  template <class Copies, class Make>
  std::array<Copies, 2> places(const Make& make) const {
    const Copies first = make();
    return {first, count == 1 ? first : make()};
  }

  /// All threads work on one block, each on some of the sums, having copied its share of the next
  /// block: so they wait for each other once for each. Calls `copy(block, place, share)` and
  /// `multiply(block, place, share, adds)`, which adds to what earlier blocks left.
  template <class Copies, class Copy, class Multiply>
  void each(const std::array<Copies, 2>& places, const Copy& copy, const Multiply& multiply) const {
    const int64_t threads = num_threads();
    for (int64_t i = -1; i < count; ++i)
      parallel_pieces(threads, threads, [&](int64_t thread, int64_t, int64_t) {
        const Share share{thread, threads};
        if (i + 1 < count) copy(block(i + 1), places[(i + 1) % 2], share);
        if (i >= 0) multiply(block(i), places[i % 2], share, i > 0);
      });
  }
};

/// Calls `put(i, pairs)` for the elements of [0, count) of two rows, 16 of them from element i on.
template <class Put>
inline void for_pairs(const ImageRows& rows, int64_t count, const Put& put) {
  constexpr int64_t kAhead = 2048;  // elements, in memory's next page
  for (int64_t i = 0; i < count; i += 2 * kWidth) {
    const ImageRows here = rows.at(i);
    __builtin_prefetch(here.a + kAhead);
    if (here.b != nullptr) __builtin_prefetch(here.b + kAhead);
    const PairsOfRows pairs(here, count - i);
    put(i, pairs.first());
    if (count - i > kWidth) put(i + kWidth, pairs.last());
  }
}

/// How images are copied: so many pairs of them at a time. x is copied to grids, one for each
/// remainder of a position by the stride (a phase), and dy to a grid as large, so that a tap of the
/// window is as far from each of its outputs, in one of the phases.
struct Cut {
  PairBlocks blocks;
  int64_t panels, strips;          ///< of 16 channels, of 16 outputs
  int64_t phases_h, phases_w;      ///< of x
  int64_t rows, columns;           ///< of a grid
  bool dense;                      ///< is the whole grid outputs? Then images follow each other
  int64_t panel_step, strip_step;  ///< in pairs of numbers, from one to the next

  explicit Cut(const ConvShape& z)
      : panels(ceil_div(z.c, kWidth)),
        strips(ceil_div(z.k, kWidth)),
        phases_h(std::min(z.stride.h, reach(z.r, z.dilation.h) + 1)),
        phases_w(std::min(z.stride.w, reach(z.s, z.dilation.w) + 1)),
        rows(z.p + reach(z.r, z.dilation.h) / z.stride.h),
        columns(z.q + reach(z.s, z.dilation.w) / z.stride.w),
        dense(rows == z.p && columns == z.q) {
    const int64_t numbers = phases() * rows * columns * z.c + rows * columns * z.k;
    blocks = {z.n, numbers};
    // A line more, so that panels do not compete for the same lines of a cache.
    panel_step = x_size(blocks.size) + amx::kNumbers + kWidth;
    strip_step = runs(blocks.size) * tiles(z, blocks.size) * amx::kNumbers + kWidth;
  }

  int64_t phases() const { return phases_h * phases_w; }
  int64_t grid() const { return rows * columns; }
  /// Of a panel, where a block has so many pairs; behind it are the zeros of a tile.
  int64_t x_size(int64_t count) const { return phases() * count * grid() * kWidth; }
  /// Outputs that follow each other in the grid, gaps between lines included, are summed in one run
  /// of tiles.
  int64_t runs(int64_t count) const { return dense ? 1 : count; }
  int64_t run_length(const ConvShape& z, int64_t count) const {
    return dense ? count * grid() : (z.p - 1) * columns + z.q;
  }
  int64_t tiles(const ConvShape& z, int64_t count) const {
    return ceil_div(run_length(z, count), kWidth);
  }

 private:
  static int64_t reach(int64_t taps, int64_t dilation) { return (taps - 1) * dilation; }
};

/// Where a block is copied to. x is [panel][phase][pair][row][column][channel], dy
/// [strip][run][tile][output][pixel].
struct Copies {
  Twice *x, *dy;
  Copies(const Cut& cut, ScratchCursor& cursor)
      : x(cursor.take<Twice>(cut.panels * cut.panel_step)),
        dy(cursor.take<Twice>(cut.strips * cut.strip_step)) {}
};

/// The gradient of one convolution.
class AmxWeight {
 public:
  AmxWeight(const ConvShape& shape, void* scratch)
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
    const int64_t x_rows = cut_.phases_h * block.count * cut_.rows;
    for (int64_t i = share.begin(x_rows); i < share.end(x_rows); ++i) copy_row_of_x(block, i, to.x);
    for (int64_t i = share.begin(cut_.panels); i < share.end(cut_.panels); ++i)
      std::fill_n(to.x + i * cut_.panel_step + cut_.x_size(block.count), amx::kNumbers, Twice{0});
    const int64_t tiles = cut_.runs(block.count) * cut_.tiles(z_, block.count);
    for (int64_t i = share.begin(tiles); i < share.end(tiles); ++i)
      copy_tile_of_dy(block, i, to.dy + i * amx::kNumbers);
  }

  /// A row of a grid of each phase of columns. `i` counts [phase][pair][row].
  void copy_row_of_x(const Block& block, int64_t i, Twice* x_pairs) const {
    const int64_t phase = i / (block.count * cut_.rows), of_phase = i % (block.count * cut_.rows);
    const int64_t pair = of_phase / cut_.rows;
    const int64_t row = of_phase % cut_.rows * z_.stride.h + phase - z_.padding.h;
    const bool exists = row >= 0 && row < z_.h;
    const ImageRows rows =
        exists ? image_rows(x_, z_.n, block.begin + pair, z_.h, row, z_.w * z_.c) : ImageRows{};
    for (int64_t phase_w = 0; phase_w < cut_.phases_w; ++phase_w) {
      const int64_t grid_row =
          (phase * cut_.phases_w + phase_w) * block.count * cut_.rows + of_phase;
      Twice* to = x_pairs + grid_row * cut_.columns * kWidth;
      for (int64_t j = 0; j < cut_.columns; ++j, to += kWidth) {
        const int64_t column = j * z_.stride.w + phase_w - z_.padding.w;
        if (exists && column >= 0 && column < z_.w)
          for_pairs(rows.at(column * z_.c), z_.c, [&](int64_t c, Pairs pairs) {
            store(to + c / kWidth * cut_.panel_step, pairs);
          });
        else
          for (int64_t panel = 0; panel < cut_.panels; ++panel)
            store(to + panel * cut_.panel_step, Pairs{});
      }
    }
  }

  /// A pixel of two images, or of neither where the grid has no output there.
  ImageRows outputs_at(const Block& block, int64_t run, int64_t i) const {
    const int64_t pair = cut_.dense ? i / cut_.grid() : run, at = cut_.dense ? i % cut_.grid() : i;
    const int64_t row = at / cut_.columns, column = at % cut_.columns;
    if (pair >= block.count || row >= z_.p || column >= z_.q) return {};
    return image_rows(dy_, z_.n, block.begin + pair, z_.p, row, z_.q * z_.k).at(column * z_.k);
  }

  /// Pixels become columns.
  void copy_tile_of_dy(const Block& block, int64_t i, Twice* to) const {
    const int64_t tiles = cut_.tiles(z_, block.count), run = i / tiles, first = i % tiles * kWidth;
    ImageRows pixels[kWidth];
    for (int64_t j = 0; j < kWidth; ++j) pixels[j] = outputs_at(block, run, first + j);
    for (int64_t k = 0; k < z_.k; k += 2 * kWidth, to += 2 * cut_.strip_step) {
      Vector<float> strip[kWidth], next[kWidth];
      for (int64_t j = 0; j < kWidth; ++j) {
        const PairsOfRows pairs(pixels[j].at(k), z_.k - k);
        strip[j] = (Vector<float>)pairs.first(), next[j] = (Vector<float>)pairs.last();
      }
      transpose(strip);
      for (int64_t j = 0; j < kWidth; ++j) store(to + j * kWidth, strip[j]);
      if (k + kWidth >= z_.k) return;
      transpose(next);
      for (int64_t j = 0; j < kWidth; ++j) store(to + cut_.strip_step + j * kWidth, next[j]);
    }
  }

  /// The sums of a block are tiles of 32 outputs and 32 channels of a tap.
  void multiply(const Block& block, const Copies& copies, const Share& share, bool adds,
                float* dweight) const {
    const amx::Scope scope;
    const int64_t taps = z_.r * z_.s, panels = ceil_div(cut_.panels, 2);
    const int64_t count = ceil_div(cut_.strips, 2) * panels * taps;
    for (int64_t i = share.begin(count); i < share.end(count); ++i) {
      const Tile tile{i / (panels * taps) * 2, i / taps % panels * 2, i % taps / z_.s,
                      i % taps % z_.s};
      const bool two_strips = tile.strip + 1 < cut_.strips,
                 two_panels = tile.panel + 1 < cut_.panels;
      if (two_strips && two_panels)
        sum<2, 2>(block, copies, tile, adds, dweight);
      else if (two_strips)
        sum<2, 1>(block, copies, tile, adds, dweight);
      else if (two_panels)
        sum<1, 2>(block, copies, tile, adds, dweight);
      else
        sum<1, 1>(block, copies, tile, adds, dweight);
    }
  }

  struct Tile {
    int64_t strip, panel, r, s;
  };

  template <int kStrips, int kPanels>
  void sum(const Block& block, const Copies& copies, const Tile& tile, bool adds,
           float* dweight) const {
    const int64_t k = tile.strip * kWidth, c = tile.panel * kWidth;
    float* to = dweight + ((k * z_.r + tile.r) * z_.s + tile.s) * z_.c + c;
    const int64_t outputs = std::min(kStrips * kWidth, z_.k - k);
    const int64_t channels = std::min(kPanels * kWidth, z_.c - c);
    for (int64_t i = 0; i < outputs; ++i) prefetch(to + i * z_.window(), channels);
    sum_tiles<kStrips, kPanels>(block, copies, tile);
    alignas(64) float sums[kStrips * kPanels][amx::kNumbers];
    amx::store<0>(sums[0]);
    if constexpr (kPanels > 1) amx::store<1>(sums[1]);
    if constexpr (kStrips > 1) amx::store<2>(sums[kPanels]);
    if constexpr (kStrips > 1 && kPanels > 1) amx::store<3>(sums[3]);
    for (int64_t i = 0; i < outputs; ++i)
      for (int64_t panel = 0; panel < kPanels; ++panel)
        put_sums(to + i * z_.window() + panel * kWidth, channels - panel * kWidth,
                 load<Vector<float>>(sums[i / kWidth * kPanels + panel] + i % kWidth * kWidth),
                 adds);
  }

  /// Leaves the sums in tiles 0 to 3: [strip][panel].
  template <int kStrips, int kPanels>
  void sum_tiles(const Block& block, const Copies& copies, const Tile& tile) const {
    const int64_t h = tile.r * z_.dilation.h, w = tile.s * z_.dilation.w;
    const int64_t phase = h % z_.stride.h * cut_.phases_w + w % z_.stride.w;
    const int64_t shift = h / z_.stride.h * cut_.columns + w / z_.stride.w;
    const Twice* x = copies.x + tile.panel * cut_.panel_step +
                     (phase * block.count * cut_.grid() + shift) * kWidth;
    const Twice* dy = copies.dy + tile.strip * cut_.strip_step;
    amx::zero<0>(), amx::zero<1>(), amx::zero<2>(), amx::zero<3>();
    const int64_t runs = cut_.runs(block.count), tiles = cut_.tiles(z_, block.count);
    for (int64_t run = 0; run < runs; ++run, x += cut_.grid() * kWidth)
      for (int64_t i = 0; i < tiles; ++i, dy += amx::kNumbers) {
        const Twice* at = x + i * amx::kNumbers;
        amx::load<4>(dy);
        if constexpr (kStrips > 1) amx::load<5>(dy + cut_.strip_step);
        amx::load<6>(at);
        if constexpr (kPanels > 1) amx::load<7>(at + cut_.panel_step);
        amx::multiply<0, 4, 6>();
        if constexpr (kPanels > 1) amx::multiply<1, 4, 7>();
        if constexpr (kStrips > 1) amx::multiply<2, 5, 6>();
        if constexpr (kStrips > 1 && kPanels > 1) amx::multiply<3, 5, 7>();
      }
  }

  ConvShape z_;
  Cut cut_;
  ScratchCursor cursor_;
  std::array<Copies, 2> places_;
  const BFloat16 *x_ = nullptr, *dy_ = nullptr;
};

}  // namespace

bool has_amx_weight(const ConvShape& shape) {
  return shape.groups == 1 && std::min(shape.c, shape.k) >= kWidth && shape.window() > 0 &&
         shape.pixels() > 0 && is_affordable(shape, amx_backward_weight_scratch(shape)) &&
         amx::is_there();
}

int64_t amx_backward_weight_scratch(const ConvShape& shape) {
  return AmxWeight(shape, nullptr).scratch_bytes();
}

void amx_backward_weight(const ConvShape& shape, const BFloat16* x, const BFloat16* dy,
                         float* dweight, void* scratch) {
  AmxWeight(shape, scratch).run(x, dy, dweight);
}

}  // namespace brim::cpu

#else

namespace brim::cpu {

bool has_amx_weight(const ConvShape&) { return false; }
int64_t amx_backward_weight_scratch(const ConvShape&) { return 0; }
void amx_backward_weight(const ConvShape&, const BFloat16*, const BFloat16*, float*, void*) {
  check(false, "no matrix unit");
}

}  // namespace brim::cpu

#endif
