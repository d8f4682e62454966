#include "brim/ops/cpu/dot_weight.h"

#include "brim/ops/cpu/dot_weight_source.h"

#ifdef __AVX512BW__

#include <algorithm>
#include <cstring>
#include <optional>

#include "brim/base/parallel.h"
#include "brim/ops/onednn.h"

namespace brim::cpu {
namespace {

using namespace dots;

/// The gradient of one convolution.
class DotWeight {
  using V = Vector<float>;

 public:
  DotWeight(const ConvShape& shape, int64_t threads, void* scratch)
      : z_(shape), layout_(shape, threads, scratch) {}

  void run(const BFloat16* x, const BFloat16* dy, float* dweight) {
    x_ = x, dy_ = dy;
    parallel_pieces(
        layout_.jobs(), layout_.threads, [&](int64_t thread, int64_t begin, int64_t end) {
          const Copies copies = layout_.copies_of(thread);
          for (int64_t i = begin; i < end; ++i) {
            const Job here = job(i);
            add_up(here, i == begin, i + 1 < end ? std::optional(job(i + 1)) : std::nullopt, copies,
                   here.piece == 0 ? dweight : layout_.sums + (here.piece - 1) * weights());
          }
        });
    if (layout_.cut.pieces == 1) return;
    parallel_for(weights(), kGrain / layout_.cut.pieces, [&](int64_t begin, int64_t end) {
      for (int64_t piece = 1; piece < layout_.cut.pieces; ++piece)
        for (int64_t i = begin; i < end; ++i)
          dweight[i] += layout_.sums[(piece - 1) * weights() + i];
    });
  }

 private:
  static constexpr int64_t kGrain = 32768;  ///< sums that repay a thread

  int64_t weights() const { return z_.k * z_.window(); }

  /// A part of a piece's sums, over its units.
  struct Job {
    int64_t piece;
    Part part;
    Range units;
  };
  Job job(int64_t i) const {
    const int64_t piece = i / layout_.parts.count();
    return {piece,
            layout_.parts.part(i % layout_.parts.count()),
            {layout_.cut.units * piece / layout_.cut.pieces,
             layout_.cut.units * (piece + 1) / layout_.cut.pieces}};
  }
  Source source(int64_t unit, const Part& part) const {
    return {z_, layout_.cut, x_, dy_, layout_.cut.unit(unit), part};
  }

  /// What is copied next is fetched during the products; only a thread's first unit is not.
  void add_up(const Job& job, bool is_first, const std::optional<Job>& after, const Copies& copies,
              float* sums) const {
    for (int64_t i = job.units.begin; i < job.units.end; ++i) {
      const Source here = source(i, job.part);
      copy(here, is_first && i == job.units.begin, copies);
      std::optional<Source> next;
      if (i + 1 < job.units.end)
        next.emplace(source(i + 1, job.part));
      else if (after)
        next.emplace(source(after->units.begin, after->part));
      const int64_t products = job.part.panels.size() * job.part.tiles.size();
      Ahead ahead(next ? &*next : nullptr, products * z_.r * z_.s * runs(here));
      for (int64_t panel = 0; panel < job.part.panels.size(); ++panel)
        for (int64_t tile = 0; tile < job.part.tiles.size(); ++tile)
          multiply_panel<kMostVectors>(here, copies, panel, tile, i > job.units.begin, ahead, sums);
    }
  }

  /// Fetched before where the products had no time to.
  void copy(const Source& source, bool fetches, const Copies& copies) const {
    const int64_t x_rows = source.all_x_rows(), dy_rows = source.all_dy_rows();
    Ahead ahead(fetches ? &source : nullptr, x_rows + dy_rows);
    ahead.step();
    for (int64_t row = 0; row < x_rows; ++row) {
      ahead.step();
      copy_row_of_x(source, row, copies);
    }
    for (int64_t row = 0; row < dy_rows; ++row) {
      ahead.step();
      copy_row_of_dy(source, row, copies);
    }
  }

  /// Zeros outside of the image.
  void copy_row_of_x(const Source& source, int64_t i, const Copies& copies) const {
    const Part& part = source.part;
    const ImageRows rows = source.x_row(i);
    for (int64_t panel = part.panels.begin; panel < part.panels.end; ++panel) {
      const int64_t c = layout_.cut.first_vector(panel) * kWidth;
      const int64_t width = layout_.cut.first_vector(panel + 1) * kWidth - c;
      const int64_t count = std::min(width, z_.c - c);
      Twice* to = copies.x + (panel - part.panels.begin) * copies.panel_step +
                  i * layout_.cut.x_columns * width;
      for (int64_t j = 0; j < layout_.cut.x_columns; ++j, to += width) {
        const int64_t column = j * layout_.cut.step_w - z_.padding.w;
        const bool is_inside = column >= 0 && column < z_.w;
        const PairsOfRows pairs(is_inside ? rows.at(column * z_.c + c) : ImageRows{}, count);
        store(to, pairs.first());
        if (width > kWidth) store(to + kWidth, pairs.last());
      }
    }
  }

  void copy_row_of_dy(const Source& source, int64_t i, const Copies& copies) const {
    const ImageRows rows = source.dy_row(i);
    const auto put = [&](int64_t tile, int64_t q, const auto& outputs) {
      if (tile < source.part.tiles.size())
        std::memcpy(copies.dy + tile * copies.tile_step + (i * z_.q + q) * kOutputs, &outputs,
                    sizeof(outputs));
    };
    for (int64_t q = 0; q < z_.q; ++q) {
      const ImageRows pixel = rows.at(q * z_.k + source.outputs.begin);
      for (int64_t tile = 0; tile < source.part.tiles.size(); tile += 4) {
        const int64_t k = tile * kOutputs;
        const PairsOfRows pairs(pixel.at(k), source.outputs.size() - k);
        put(tile, q, low_half(pairs.first()));
        put(tile + 1, q, high_half(pairs.first()));
        put(tile + 2, q, low_half(pairs.last()));
        put(tile + 3, q, high_half(pairs.last()));
      }
    }
  }
  static HalfVector<Twice> low_half(Pairs all) {
    return __builtin_shufflevector(all, all, 0, 1, 2, 3, 4, 5, 6, 7);
  }
  static HalfVector<Twice> high_half(Pairs all) {
    return __builtin_shufflevector(all, all, 8, 9, 10, 11, 12, 13, 14, 15);
  }

  /// All pixels of a window of one tap lie side by side.
  bool is_dense() const { return z_.r == 1 && z_.s == 1; }
  /// Pixels that follow each other; of a dense window, for fetching to come in between.
  int64_t run_length() const { return is_dense() ? 32 : z_.q; }
  int64_t runs(const Source& source) const {
    return ceil_div(source.all_dy_rows() * z_.q, run_length());
  }

  template <int kVectors>
  void multiply_panel(const Source& source, const Copies& copies, int64_t panel, int64_t tile,
                      bool adds, Ahead& ahead, float* to_all) const {
    const Part& part = source.part;
    const int64_t v0 = layout_.cut.first_vector(part.panels.begin + panel);
    if constexpr (kVectors > 1)
      if (layout_.cut.first_vector(part.panels.begin + panel + 1) - v0 < kVectors)
        return multiply_panel<kVectors - 1>(source, copies, panel, tile, adds, ahead, to_all);
    const int64_t k = (part.tiles.begin + tile) * kOutputs, outputs = std::min(kOutputs, z_.k - k);
    for (int64_t r = 0; r < z_.r; ++r)
      for (int64_t s = 0; s < z_.s; ++s) {
        float* to = to_all + (k * z_.r * z_.s + r * z_.s + s) * z_.c + v0 * kWidth;
        // What has to be there when the sums are.
        for (int64_t i = 0; i < outputs; ++i) prefetch(to + i * z_.window(), kVectors * kWidth);
        V sums[kOutputs][kVectors];
        sum_tap<kVectors>(source, copies.x + panel * copies.panel_step,
                          copies.dy + tile * copies.tile_step, r, s, ahead, sums);
        for (int64_t i = 0; i < outputs; ++i)
          for (int v = 0; v < kVectors; ++v)
            put_sums(to + i * z_.window() + v * kWidth, z_.c - (v0 + v) * kWidth, sums[i][v], adds);
      }
  }

  /// The pixel of the copied x under the first of a row of dy, for the first tap.
  int64_t first_under(const Source& source, int64_t row) const {
    const int64_t pair = row / source.unit.rows.size(), of_pair = row % source.unit.rows.size();
    return (pair * source.x_rows + of_pair * layout_.cut.stride_h) * layout_.cut.x_columns;
  }

  /// Adds up a tile over the pixels of a unit, of one tap. A function by itself, with sums of its
  /// own: g++ 14 keeps some of them in memory otherwise, which takes half as long again.
  template <int kVectors>
  [[gnu::noinline]] void sum_tap(const Source& source, const Twice* x, const Twice* dy, int64_t r,
                                 int64_t s, Ahead& ahead, V (&sums)[kOutputs][kVectors]) const {
    constexpr int64_t kPixel = kVectors * kWidth;
    x += (r * z_.dilation.h * layout_.cut.x_columns + s * z_.dilation.w) * kPixel;
    const int64_t pixels = source.all_dy_rows() * z_.q, length = run_length();
    V own[kOutputs][kVectors] = {};
    for (int64_t begin = 0, run = 0; begin < pixels; begin += length, ++run) {
      ahead.step();
      const int64_t first = is_dense() ? begin : first_under(source, run);
      const Twice* at = x + first * kPixel;
      const int64_t end = std::min(begin + length, pixels);
      for (int64_t i = begin; i < end; ++i, at += layout_.cut.stride_w * kPixel, dy += kOutputs) {
        Pairs here[kVectors];
        for (int v = 0; v < kVectors; ++v) here[v] = load<Pairs>(at + v * kWidth);
        for (int64_t k = 0; k < kOutputs; ++k) {
          const Pairs gradient = dy[k] - Pairs{};
          for (int v = 0; v < kVectors; ++v) own[k][v] = add_products(own[k][v], here[v], gradient);
        }
      }
    }
    for (int64_t k = 0; k < kOutputs; ++k)
      for (int v = 0; v < kVectors; ++v) sums[k][v] = own[k][v];
  }

  ConvShape z_;
  Layout layout_;
  const BFloat16 *x_ = nullptr, *dy_ = nullptr;
};

}  // namespace

bool has_dot_weight(const ConvShape& shape) {
  return onednn::has_bfloat16() && !onednn::has_tiles() && dots::suits(shape);
}

int64_t dot_backward_weight_scratch(const ConvShape& shape) {
  return Layout(shape, num_threads(), nullptr).bytes;
}

void dot_backward_weight(const ConvShape& shape, const BFloat16* x, const BFloat16* dy,
                         float* dweight, void* scratch) {
  DotWeight(shape, num_threads(), scratch).run(x, dy, dweight);
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
