// The weight gradient by Winograd's method: products of the elements of x and of dy, summed over
// tiles; the weights are cut into parts whose sums stay in the second-level cache.
#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/affordable.h"
#include "brim/ops/cpu/tile_product.h"
#include "brim/ops/cpu/winograd.h"
#include "brim/ops/cpu/winograd_choice.h"
#include "brim/ops/cpu/winograd_grid.h"

namespace brim::cpu::winograd {
namespace {

constexpr int64_t kMostK = 64, kMostC = 64;  // channels of a part

/// By tiles of kOut x kOut outputs.
template <int kOut>
class WeightGradient {
 public:
  WeightGradient(const ConvShape& shape, int64_t threads, void* scratch)
      : shape_(shape),
        grid_(shape),
        parts_of_c_(ceil_div(shape.c, kMostC)),
        parts_(ceil_div(shape.k, kMostK) * parts_of_c_),
        pieces_(std::max<int64_t>(std::min(kUnits / parts_, grid_.count() / kTilesOfPiece), 1)),
        threads_(std::min(threads, parts_ * pieces_)),
        block_(std::min(kBlock, ceil_div(grid_.count(), pieces_))),
        sums_of_part_(kElements<kOut> * part(0).c.count * part(0).k.count),
        cursor_(scratch),
        sums_(cursor_.take<float>((pieces_ > 1 ? pieces_ * parts_ : threads_) * sums_of_part_)),
        x_(cursor_.take<float>(threads_ * elements_of_x())),
        dy_(cursor_.take<float>(threads_ * elements_of_dy())) {}

  int64_t scratch_bytes() const { return cursor_.used(); }
  int64_t tiles() const { return grid_.count(); }
  /// What threads share among them.
  int64_t units() const { return parts_ * pieces_; }

  /// `norm` is that of x, or null.
  void run(const float* x, const InputNorm* norm, const float* dy, float* dweight) const {
    parallel_pieces(parts_ * pieces_, threads_, [&](int64_t thread, int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t piece = unit / parts_, tiles = grid_.count();
        const Part one = part(unit % parts_);
        float* sums = sums_ + (pieces_ > 1 ? unit : thread) * sums_of_part_;
        sum_up({tiles * piece / pieces_, tiles * (piece + 1) / pieces_}, one, x, norm, dy, thread,
               sums);
        if (pieces_ == 1) transform(one, sums, {0, one.k.count}, dweight);
      }
    });
    if (pieces_ == 1) return;
    parallel_for(parts_ * kMostK, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) add_pieces(i / kMostK, i % kMostK, dweight);
    });
  }

 private:
  /// Tiles whose elements stay in a cache.
  static constexpr int64_t kBlock = kOut == 2 ? 48 : 32;
  static constexpr int64_t kUnits = 8;           ///< to share among threads
  static constexpr int64_t kTilesOfPiece = 128;  ///< which repay its own sums
  static constexpr int64_t kGrain = 8;           ///< filters

  struct Filters {
    int64_t begin, count;
  };
  struct Part {
    Channels k, c;
    /// Where the sums for a filter are.
    int64_t at(int e, int64_t filter) const { return (e * k.count + filter) * c.count; }
  };
  Part part(int64_t i) const {
    const int64_t k = i / parts_of_c_ * kMostK, c = i % parts_of_c_ * kMostC;
    return {{k, std::min(kMostK, shape_.k - k)}, {c, std::min(kMostC, shape_.c - c)}};
  }

  /// Floats that elements of a block take.
  int64_t elements_of_x() const {
    return Elements::count(kElements<kOut>, block_, part(0).c.count);
  }
  int64_t elements_of_dy() const {
    return Elements::count(kElements<kOut>, block_, part(0).k.count);
  }

  /// sums[element][filter][channel] over the tiles.
  void sum_up(Tiles range, const Part& part, const float* x, const InputNorm* norm, const float* dy,
              int64_t thread, float* sums) const {
    const Elements of_x(x_ + thread * elements_of_x(), block_, part.c.count);
    const Elements of_dy(dy_ + thread * elements_of_dy(), block_, part.k.count);
    for (int64_t at = range.begin; at < range.end; at += block_) {
      const Tiles block{at, std::min(at + block_, range.end)};
      grid_.transform_x(x, norm, block, part.c, of_x);
      grid_.transform_dy(dy, block, part.k, of_dy);
      const auto multiply_block = at == range.begin ? tiles::multiply<tiles::Ends::exact, false>
                                                    : tiles::multiply<tiles::Ends::exact, true>;
      for (int e = 0; e < kElements<kOut>; ++e)
        multiply_block({.a = of_dy.of(e),
                        .a_row = 1,
                        .a_step = of_dy.row(),
                        .b = of_x.of(e),
                        .b_row = of_x.row(),
                        .c = sums + part.at(e, 0),
                        .c_row = part.c.count,
                        .rows = part.k.count,
                        .columns = part.c.count,
                        .depth = block.size()});
    }
  }

  /// dweight of a filter of a part, once its sums over all pieces are added up.
  void add_pieces(int64_t index, int64_t filter, float* dweight) const {
    const Part one = part(index);
    if (filter >= one.k.count) return;
    float* sums = sums_ + index * sums_of_part_;
    for (int64_t piece = 1; piece < pieces_; ++piece) {
      const float* more = sums + piece * parts_ * sums_of_part_;
      for (int e = 0; e < kElements<kOut>; ++e)
        for (int64_t c = 0; c < one.c.count; ++c)
          sums[one.at(e, filter) + c] += more[one.at(e, filter) + c];
    }
    transform(one, sums, {filter, 1}, dweight);
  }

  /// dweight of some of a part's filters.
  void transform(const Part& part, const float* sums, Filters filters, float* dweight) const {
    for (int64_t k = filters.begin; k < filters.begin + filters.count; ++k)
      for (int64_t c = 0; c < part.c.count; c += kWidth) {
        constexpr int kIn = kInputs<kOut>;
        float* to = dweight + (part.k.begin + k) * kTaps * shape_.c + part.c.begin + c;
        transform_square<kIn, kFilter>(
            transform_to_filter_gradient<V>,
            [&](int i, int j) { return load<V>(sums + part.at(i * kIn + j, k) + c); },
            [&](int, const V(&taps)[kFilter]) {
              for (int j = 0; j < kFilter; ++j, to += shape_.c) store(to, taps[j]);
            });
      }
  }

  ConvShape shape_;
  Grid<kOut> grid_;
  int64_t parts_of_c_, parts_;
  int64_t pieces_;  ///< of the tiles, whose sums are added at the end
  int64_t threads_, block_, sums_of_part_;
  ScratchCursor cursor_;
  float *sums_, *x_, *dy_;
};

}  // namespace

template <int kOut>
bool is_weight_gradient_worth_it(const ConvShape& shape) {
  constexpr int64_t kFewestTiles = 16;
  const WeightGradient<kOut> gradient(shape, kThreadsOfChoice, nullptr);
  return gradient.tiles() >= kFewestTiles && gradient.units() > 1 &&
         is_affordable(shape, gradient.scratch_bytes());
}
template bool is_weight_gradient_worth_it<2>(const ConvShape&);
template bool is_weight_gradient_worth_it<4>(const ConvShape&);

bool transforms_x_once(const ConvShape& shape) { return shape.k <= kMostK; }

int64_t backward_weight_scratch(const ConvShape& shape) {
  return with_tile(shape, ConvPass::backward_weight, [&]<int kOut>(TileOf<kOut>) {
    return WeightGradient<kOut>(shape, num_threads(), nullptr).scratch_bytes();
  });
}

void backward_weight(const ConvShape& shape, const float* x, const float* dy, float* dweight,
                     void* scratch, const InputNorm* norm) {
  with_tile(shape, ConvPass::backward_weight, [&]<int kOut>(TileOf<kOut>) {
    WeightGradient<kOut>(shape, num_threads(), scratch).run(x, norm, dy, dweight);
  });
}

}  // namespace brim::cpu::winograd
