#include "brim/ops/cpu/pointwise.h"

#include <algorithm>
#include <cstring>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/affordable.h"
#include "brim/ops/cpu/channel_rows.h"
#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/pointwise_pixels.h"
#include "brim/ops/cpu/tile_product.h"
#include "brim/ops/cpu/transpose.h"

namespace brim::cpu::pointwise {
namespace {

using V = Vector<float>;
constexpr int64_t kWidth = kLanes<V>;

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

/// Rows that stay in the caches while all columns are computed from them.
struct Block {
  const float *a, *in_memory;  ///< the rows, and the first where they came from
  int64_t begin, rows;  ///< of the result
  bool is_first;        ///< of its unit
};

/// What is read: pixels side by side or spread over an image, as they are or through a norm.
struct Input {
  Pixels pixels;
  const InputNorm* norm = nullptr;
  bool is_read_in_place() const { return pixels.is_dense() && norm == nullptr; }
};

/// out [pixels, outputs] = in [pixels, depth] B + bias. One of the two may be spread over an image,
/// as `Pixels` says.
class RowProduct {
 public:
  RowProduct(int64_t rows, int64_t depth, int64_t outputs, const Input& in, const Pixels& out,
             bool with_statistics, int64_t threads, void* scratch)
      : rows_(rows),
        depth_(depth),
        outputs_(outputs),
        in_(in),
        out_(out),
        unit_(pixels_of_part(rows)),
        units_(ceil_div(rows, unit_)),
        threads_(std::min(threads, units_)),
        block_(block_rows(unit_, depth)),
        with_statistics_(with_statistics),
        cursor_(scratch),
        panels_(depth, outputs, cursor_) {
    if (with_statistics) moments_ = PartMoments(units_, outputs, cursor_);
    parts_ = cursor_.take<char>(threads_ * part_bytes());
  }

  int64_t scratch_bytes() const { return cursor_.used(); }
  const Panels& panels() const { return panels_; }

  /// out += in B.
  void add(const float* in, float* out) {
    adds_ = true;
    run(in, nullptr, out, {});
  }

  void run(const float* in, const float* bias, float* out, const BatchStatistics& to) {
    in_data_ = in;
    bias_ = bias;
    out_data_ = out;
    streams_ = !adds_ && outputs_ % kWidth == 0 && worth_streaming(out, rows_ * outputs_);
    parallel_pieces(units_, threads_, [&](int64_t thread, int64_t begin, int64_t end) {
      const Part part = part_of(parts_ + thread * part_bytes());
      for (int64_t unit = begin; unit < end; ++unit) run_unit(unit, part);
      stream_fence();
    });
    if (with_statistics_)
      join_moments(
          moments_, [&](int64_t unit) { return rows_of(unit); }, to);
  }

 private:
  static constexpr int64_t kBlockFloats = 32 << 10;  ///< of a block of `in`

  /// A divisor of the unit, and a multiple of the rows of all tiles.
  static int64_t block_rows(int64_t unit, int64_t depth) {
    int64_t rows = unit;
    while (rows > 24 && rows * depth > kBlockFloats) rows /= 2;
    return rows;
  }

  /// What a thread works in.
  struct Part {
    PartSums sums;
    float* gathered;
    int64_t bytes;
  };
  Part part_of(void* base) const {
    ScratchCursor cursor(base);
    PartSums sums(with_statistics_ ? panels_.padded_outputs() : 0, cursor);
    float* gathered = in_.is_read_in_place() ? nullptr : cursor.take<float>(block_ * depth_);
    return {sums, gathered, cursor.used()};
  }
  int64_t part_bytes() const { return part_of(nullptr).bytes; }

  int64_t rows_of(int64_t unit) const { return std::min(unit_, rows_ - unit * unit_); }

  void run_unit(int64_t unit, const Part& part) const {
    const int64_t end = unit * unit_ + rows_of(unit);
    for (int64_t at = unit * unit_; at < end; at += block_) {
      const int64_t rows = std::min(block_, end - at);
      const Block block{rows_from(at, rows, part.gathered),
                        in_data_ + in_.pixels.index(at) * depth_, at, rows, at == unit * unit_};
      for (int64_t panel = 0; panel < panels_.count(); ++panel)
        multiply_panel<tiles::kMostVectors>(block, panel, part.sums);
    }
    if (with_statistics_) part.sums.finish(moments_, unit, rows_of(unit), 0, outputs_);
  }

  /// Where they lie, or in `gathered`.
  const float* rows_from(int64_t at, int64_t rows, float* gathered) const {
    const float* from = in_data_ + at * depth_;
    if (in_.is_read_in_place()) return from;
    if (!in_.pixels.is_dense()) {
      in_.pixels.gather(in_data_, depth_, at, rows, gathered);
      from = gathered;
    }
    if (in_.norm != nullptr) in_.norm->apply(from, rows, gathered);
    return gathered;
  }

  template <int kVectors>
  void multiply_panel(const Block& block, int64_t panel, const PartSums& sums) const {
    if constexpr (kVectors > 1)
      if (panels_.width(panel) < kVectors * kWidth)
        return multiply_panel<kVectors - 1>(block, panel, sums);
    constexpr int kRows = tiles::tile_rows(tiles::Ends::spare, kVectors);
    int64_t i = 0;
    for (; i + kRows <= block.rows; i += kRows)
      multiply_tile<kRows, kVectors>(block, i, panel, sums);
    for (; i < block.rows; ++i) multiply_tile<1, kVectors>(block, i, panel, sums);
  }

  template <int kRows, int kVectors>
  void multiply_tile(const Block& block, int64_t row, int64_t panel, const PartSums& sums) const {
    const int64_t column = panels_.begin(panel);
    float* to[kRows];
    for (int i = 0; i < kRows; ++i) {
      to[i] = out_data_ + out_.index(block.begin + row + i) * outputs_ + column;
      if (!streams_)
        for (int v = 0; v < kVectors; ++v) __builtin_prefetch(to[i] + v * kWidth, 1);
    }
    V tile[kRows][kVectors] = {};
    const tiles::Product<float> product{
        .a_row = depth_, .a_step = 1, .b_row = kVectors * kWidth, .depth = depth_};
    const float *a = block.a + row * depth_, *b = panels_.of(panel);
    if (panel == 0) {
      // The rows of the next tile, or those that the next block is made from.
      const float* next =
          in_.norm == nullptr ? a + kRows * depth_ : block.in_memory + (block.rows + row) * depth_;
      tiles::sum_tile(product, a, b, tile, [next](int64_t step, const void*) {
        __builtin_prefetch(next + kRows * step);
      });
    } else {
      tiles::sum_tile(product, a, b, tile);
    }
    const bool is_first = block.is_first && row == 0;
    if (column + kVectors * kWidth <= outputs_) return finish(tile, to, column, is_first, sums);
    V stored[kRows][kVectors];
    tiles::unrolled<kRows, kVectors>([&](int i, int v) { stored[i][v] = tile[i][v]; });
    finish_ragged(stored, to, column, is_first, sums);
  }

  /// A tile that lies in registers: calls in here would have them saved during the sums too.
  template <int kRows, int kVectors>
  void finish(V (&tile)[kRows][kVectors], float* const (&to)[kRows], int64_t column, bool is_first,
              const PartSums& sums) const {
    const auto each = [](const auto& body) { tiles::unrolled<kRows, kVectors>(body); };
    if (bias_ != nullptr)
      each([&](int i, int v) { tile[i][v] += load<V>(bias_ + column + v * kWidth); });
    if (with_statistics_) add_statistics(tile, column, is_first, sums);
    if (streams_)
      each([&](int i, int v) { stream(to[i] + v * kWidth, tile[i][v]); });
    else if (adds_)
      each([&](int i, int v) {
        float* at = to[i] + v * kWidth;
        store(at, load<V>(at) + tile[i][v]);
      });
    else
      each([&](int i, int v) { store(to[i] + v * kWidth, tile[i][v]); });
  }

  /// One that ends beyond the last output, of rows that are never stored past the caches.
  template <int kRows, int kVectors>
  [[gnu::noinline]] void finish_ragged(V (&tile)[kRows][kVectors], float* const (&to)[kRows],
                                       int64_t column, bool is_first, const PartSums& sums) const {
    const auto bytes = [&](int v) {
      return static_cast<size_t>(std::min(outputs_ - column - v * kWidth, kWidth)) * sizeof(float);
    };
    const auto columns = [&](const float* from, int v) {
      V value{};
      std::memcpy(&value, from + v * kWidth, bytes(v));
      return value;
    };
    const auto each = [](const auto& body) { tiles::unrolled<kRows, kVectors>(body); };
    if (bias_ != nullptr) each([&](int i, int v) { tile[i][v] += columns(bias_ + column, v); });
    if (with_statistics_) add_statistics(tile, column, is_first, sums);
    if (adds_) each([&](int i, int v) { tile[i][v] += columns(to[i], v); });
    each([&](int i, int v) { std::memcpy(to[i] + v * kWidth, &tile[i][v], bytes(v)); });
  }

  template <int kRows, int kVectors>
  static void add_statistics(const V (&tile)[kRows][kVectors], int64_t column, bool is_first,
                             const PartSums& sums) {
    tiles::unrolled<1, kVectors>([&](int, int v) {
      V pixels[kRows];
      tiles::unrolled<kRows, 1>([&](int i, int) { pixels[i] = tile[i][v]; });
      sums.add(pixels, column + v * kWidth, is_first);
    });
  }

  int64_t rows_, depth_, outputs_;
  Input in_;
  Pixels out_;
  int64_t unit_, units_;  ///< of rows, each with sums of its own
  int64_t threads_, block_;
  bool with_statistics_, streams_ = false, adds_ = false;
  ScratchCursor cursor_;
  Panels panels_;
  PartMoments moments_;
  char* parts_;
  const float *in_data_ = nullptr, *bias_ = nullptr;
  float* out_data_ = nullptr;
};

RowProduct forward_product(const ConvShape& shape, const InputNorm* norm, bool with_statistics,
                           int64_t threads, void* scratch) {
  const Input in{Pixels::under_windows(shape), norm};
  return {shape.pixels(), shape.c, shape.k, in, Pixels(), with_statistics, threads, scratch};
}

RowProduct data_product(const ConvShape& shape, int64_t threads, void* scratch) {
  return {shape.pixels(), shape.k, shape.c, Input(), Pixels::under_windows(shape),
          false,          threads, scratch};
}

void run_forward(RowProduct product, const float* x, const float* weight, const float* bias,
                 float* y, const BatchStatistics& statistics) {
  product.panels().pack_transposed(weight);
  product.run(x, bias, y, statistics);
}

}  // namespace

bool suits(const ConvShape& shape, ConvPass pass) {
  constexpr int64_t kFewestChannels = 8;
  // With fewer a library does the data gradient as fast, and forward not much slower.
  const int64_t fewest_pixels = pass == ConvPass::forward ? 256 : 8192;
  const bool is_possible = shape.groups == 1 && shape.r == 1 && shape.s == 1 &&
                           shape.padding == Pair(0) && pass != ConvPass::backward_weight;
  if (!is_possible || std::min(shape.c, shape.k) < kFewestChannels ||
      shape.pixels() < fewest_pixels)
    return false;
  const int64_t scratch =
      pass == ConvPass::forward
          ? forward_product(shape, nullptr, false, kThreadsOfChoice, nullptr).scratch_bytes()
          : data_product(shape, kThreadsOfChoice, nullptr).scratch_bytes();
  return is_affordable(shape, scratch);
}

int64_t forward_scratch(const ConvShape& shape, bool with_statistics) {
  return forward_product(shape, nullptr, with_statistics, num_threads(), nullptr).scratch_bytes();
}

void forward(const ConvShape& shape, const float* x, const float* weight, const float* bias,
             float* y, const BatchStatistics& statistics, void* scratch) {
  run_forward(forward_product(shape, nullptr, statistics.are_wanted(), num_threads(), scratch), x,
              weight, bias, y, statistics);
}

int64_t normalized_forward_scratch(const ConvShape& shape, const InputNorm& norm) {
  return forward_product(shape, &norm, true, num_threads(), nullptr).scratch_bytes();
}

void normalized_forward(const ConvShape& shape, const InputNorm& norm, const float* x,
                        const float* weight, const float* bias, float* y,
                        const BatchStatistics& statistics, void* scratch) {
  run_forward(forward_product(shape, &norm, statistics.are_wanted(), num_threads(), scratch), x,
              weight, bias, y, statistics);
}

int64_t backward_data_scratch(const ConvShape& shape) {
  return data_product(shape, num_threads(), nullptr).scratch_bytes();
}

void backward_data(const ConvShape& shape, const float* dy, const float* weight, float* dx,
                   void* scratch) {
  RowProduct product = data_product(shape, num_threads(), scratch);
  product.panels().pack(weight);
  product.run(dy, nullptr, dx, {});
  Pixels::under_windows(shape).clear_others(dx, shape.c);
}

void add_backward_data(const ConvShape& shape, const float* dy, const float* weight, float* dx,
                       void* scratch) {
  RowProduct product = data_product(shape, num_threads(), scratch);
  product.panels().pack(weight);
  product.add(dy, dx);
}

}  // namespace brim::cpu::pointwise
