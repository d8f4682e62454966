#include "brim/ops/cpu/pointwise.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/affordable.h"
#include "brim/ops/cpu/channel_rows.h"
#include "brim/ops/cpu/gradient_tiles.h"
#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/norm_backward.h"
#include "brim/ops/cpu/pixel_sums.h"
#include "brim/ops/cpu/pointwise_panels.h"
#include "brim/ops/cpu/pointwise_pixels.h"
#include "brim/ops/cpu/tile_product.h"

namespace brim::cpu::pointwise {
namespace {

using V = Vector<float>;
constexpr int64_t kWidth = kLanes<V>;

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
             Gathers gathers, int64_t threads, void* scratch)
      : rows_(rows),
        depth_(depth),
        outputs_(outputs),
        in_(in),
        out_(out),
        unit_(pixels_of_part(rows)),
        units_(ceil_div(rows, unit_)),
        threads_(std::min(threads, units_)),
        block_(block_rows(unit_, depth)),
        gathers_(gathers),
        cursor_(scratch),
        panels_(depth, outputs, cursor_) {
    if (gathers == Gathers::statistics) moments_ = PartMoments(units_, outputs, cursor_);
    totals_ = cursor_.take<double>(units_ * size_of_norm_sums());
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
    bias_ = bias;
    multiply(in, out);
    if (gathers_ == Gathers::statistics)
      join_moments(
          moments_, [&](int64_t unit) { return rows_of(unit); }, to);
  }

  /// in B is the gradient of what `norm` gave of x: out gets that of what went into the activation,
  /// and [outputs] its sums and those of its product with x - mean.
  void run_into(const InputNorm& norm, const float* x, const float* in, float* out,
                UnitVisitor* visitor, double* sum_g, double* sum_gx) {
    into_.emplace(norm, outputs_, x, out);
    multiply(in, out, visitor);
    join_norm_sums(totals_, units_, outputs_, sum_g, sum_gx);
  }

 private:
  static constexpr int64_t kBlockFloats = 32 << 10;  ///< of a block of `in`

  void multiply(const float* in, float* out, UnitVisitor* visitor = nullptr) {
    in_data_ = in;
    out_data_ = out;
    streams_ = !adds_ && outputs_ % kWidth == 0 && worth_streaming(out, rows_ * outputs_);
    const int64_t pieces = visitor == nullptr ? units_ : visitor->pieces();
    parallel_pieces(pieces, threads_, [&](int64_t thread, int64_t begin, int64_t end) {
      const Part part = part_of(parts_ + thread * part_bytes());
      for (int64_t piece = begin; piece < end; ++piece) {
        if (visitor != nullptr) visitor->begin(piece);
        for (int64_t unit = units_ * piece / pieces; unit < units_ * (piece + 1) / pieces; ++unit) {
          if (visitor != nullptr)
            visitor->visit(thread, piece, unit * unit_, unit * unit_ + rows_of(unit));
          run_unit(unit, part);
        }
      }
      stream_fence();
    });
  }

  double* totals_of(int64_t unit) const { return totals_ + unit * size_of_norm_sums(); }

  /// A divisor of the unit, and a multiple of the rows of all tiles.
  static int64_t block_rows(int64_t unit, int64_t depth) {
    int64_t rows = unit;
    while (rows > 24 && rows * depth > kBlockFloats) rows /= 2;
    return rows;
  }

  /// What a thread works in.
  struct Part {
    PartSums statistics;
    float* norm_sums;  ///< of g, and behind them of g * (x - mean)
    float* gathered;
    int64_t bytes;
  };
  Part part_of(void* base) const {
    ScratchCursor cursor(base);
    const PartSums statistics(gathers_ == Gathers::statistics ? panels_.padded_outputs() : 0,
                              cursor);
    float* norm_sums = cursor.take<float>(size_of_norm_sums());
    float* gathered = in_.is_read_in_place() ? nullptr : cursor.take<float>(block_ * depth_);
    return {statistics, norm_sums, gathered, cursor.used()};
  }
  int64_t part_bytes() const { return part_of(nullptr).bytes; }
  int64_t size_of_norm_sums() const { return gathers_ == Gathers::norm_sums ? 2 * outputs_ : 0; }

  int64_t rows_of(int64_t unit) const { return std::min(unit_, rows_ - unit * unit_); }

  void run_unit(int64_t unit, const Part& part) const {
    const int64_t end = unit * unit_ + rows_of(unit);
    PixelSums<float> norm_sums{part.norm_sums, totals_of(unit), size_of_norm_sums()};
    norm_sums.clear();
    for (int64_t at = unit * unit_; at < end; at += block_) {
      const int64_t rows = std::min(block_, end - at);
      const Block block{rows_from(at, rows, part.gathered),
                        in_data_ + in_.pixels.index(at) * depth_, at, rows, at == unit * unit_};
      for (int64_t panel = 0; panel < panels_.count(); ++panel)
        multiply_panel<tiles::kMostVectors>(block, panel, part);
    }
    if (gathers_ == Gathers::statistics)
      part.statistics.finish(moments_, unit, rows_of(unit), 0, outputs_);
    norm_sums.flush();
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
  void multiply_panel(const Block& block, int64_t panel, const Part& part) const {
    if constexpr (kVectors > 1)
      if (panels_.width(panel) < kVectors * kWidth)
        return multiply_panel<kVectors - 1>(block, panel, part);
    constexpr int kRows = tiles::tile_rows(tiles::Ends::spare, kVectors);
    int64_t i = 0;
    for (; i + kRows <= block.rows; i += kRows)
      multiply_tile<kRows, kVectors>(block, i, panel, part);
    for (; i < block.rows; ++i) multiply_tile<1, kVectors>(block, i, panel, part);
  }

  template <int kRows, int kVectors>
  void multiply_tile(const Block& block, int64_t row, int64_t panel, const Part& part) const {
    const int64_t column = panels_.begin(panel);
    float* to[kRows];
    for (int i = 0; i < kRows; ++i) {
      to[i] = out_data_ + out_.index(block.begin + row + i) * outputs_ + column;
      if (!streams_)
        for (int v = 0; v < kVectors; ++v) __builtin_prefetch(to[i] + v * kWidth, 1);
      // Of the next tile.
      if (into_) __builtin_prefetch(into_->x() + (to[i] - out_data_) + kRows * outputs_);
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
    const bool is_first = block.is_first && row == 0, fits = column + kVectors * kWidth <= outputs_;
    if (fits && !into_) return finish(tile, to, column, is_first, part.statistics);
    V stored[kRows][kVectors];
    tiles::unrolled<kRows, kVectors>([&](int i, int v) { stored[i][v] = tile[i][v]; });
    if (into_)
      into_->put(stored, to, column, streams_, part.norm_sums);
    else
      finish_ragged(stored, to, column, is_first, part.statistics);
  }

  /// A tile that lies in registers: calls in here would have them saved during the sums too.
  template <int kRows, int kVectors>
  void finish(V (&tile)[kRows][kVectors], float* const (&to)[kRows], int64_t column, bool is_first,
              const PartSums& sums) const {
    const auto each = [](const auto& body) { tiles::unrolled<kRows, kVectors>(body); };
    if (bias_ != nullptr)
      each([&](int i, int v) { tile[i][v] += load<V>(bias_ + column + v * kWidth); });
    if (gathers_ == Gathers::statistics) add_statistics(tile, column, is_first, sums);
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
    if (gathers_ == Gathers::statistics) add_statistics(tile, column, is_first, sums);
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
  Gathers gathers_;
  bool streams_ = false, adds_ = false;
  ScratchCursor cursor_;
  Panels panels_;
  PartMoments moments_;
  double* totals_ = nullptr;  ///< of each unit: the sums of g, and of g * (x - mean)
  char* parts_;
  const float *in_data_ = nullptr, *bias_ = nullptr;
  float* out_data_ = nullptr;
  std::optional<GradientTiles> into_;
};

RowProduct forward_product(const ConvShape& shape, const InputNorm* norm, bool with_statistics,
                           int64_t threads, void* scratch) {
  const Input in{Pixels::under_windows(shape), norm};
  return {shape.pixels(), shape.c,
          shape.k,        in,
          Pixels(),       with_statistics ? Gathers::statistics : Gathers::nothing,
          threads,        scratch};
}

RowProduct data_product(const ConvShape& shape, Gathers gathers, int64_t threads, void* scratch) {
  return {shape.pixels(), shape.k, shape.c, Input(), Pixels::under_windows(shape),
          gathers,        threads, scratch};
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
          : data_product(shape, Gathers::nothing, kThreadsOfChoice, nullptr).scratch_bytes();
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
  return data_product(shape, Gathers::nothing, num_threads(), nullptr).scratch_bytes();
}

void backward_data(const ConvShape& shape, const float* dy, const float* weight, float* dx,
                   void* scratch) {
  RowProduct product = data_product(shape, Gathers::nothing, num_threads(), scratch);
  product.panels().pack(weight);
  product.run(dy, nullptr, dx, {});
  Pixels::under_windows(shape).clear_others(dx, shape.c);
}

bool goes_into_norm(const ConvShape& shape) {
  return suits(shape, ConvPass::backward_data) && shape.c % kWidestFloats == 0;
}

int64_t backward_into_norm_scratch(const ConvShape& shape) {
  return data_product(shape, Gathers::norm_sums, num_threads(), nullptr).scratch_bytes();
}

void backward_into_norm(const ConvShape& shape, const InputNorm& norm, const float* x,
                        const float* dy, const float* weight, float* g, UnitVisitor* visitor,
                        double* sum_g, double* sum_gx, void* scratch) {
  RowProduct product = data_product(shape, Gathers::norm_sums, num_threads(), scratch);
  product.panels().pack(weight);
  product.run_into(norm, x, dy, g, visitor, sum_g, sum_gx);
  Pixels::under_windows(shape).clear_others(g, shape.c);
}

void add_backward_data(const ConvShape& shape, const float* dy, const float* weight, float* dx,
                       void* scratch) {
  RowProduct product = data_product(shape, Gathers::nothing, num_threads(), scratch);
  product.panels().pack(weight);
  product.add(dy, dx);
}

}  // namespace brim::cpu::pointwise
