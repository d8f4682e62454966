#include "brim/ops/cpu/winograd.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/affordable.h"
#include "brim/ops/cpu/few_pixels.h"
#include "brim/ops/cpu/gradient_tiles.h"
#include "brim/ops/cpu/input_norm.h"
#include "brim/ops/cpu/norm_backward.h"
#include "brim/ops/cpu/tile_product.h"
#include "brim/ops/cpu/winograd_choice.h"
#include "brim/ops/cpu/winograd_filters.h"
#include "brim/ops/cpu/winograd_grid.h"

namespace brim::cpu::winograd {
namespace {

using tiles::kPanel;
using tiles::kRowUnit;

/// How products are cut.
struct Cut {
  int64_t panel = kPanel, row_unit = kRowUnit;
};
/// That of the widest vectors, whose scratch is what every processor's choice looks at: then they
/// choose alike.
constexpr Cut kCutOfChoice{.panel = 64, .row_unit = 24};
static_assert(kVectorBytes < 64 ||
              (kPanel == kCutOfChoice.panel && kRowUnit == kCutOfChoice.row_unit));

/// A convolution of x [n,h,w,c] to y [n,p,q,k], by tiles of kOut x kOut outputs.
template <int kOut>
class Convolution {
 public:
  Convolution(const ConvShape& shape, Gathers gathers, int64_t threads, void* scratch,
              const Cut& cut = {})
      : shape_(shape),
        grid_(shape),
        gathers_(gathers),
        unit_(grid_.count() < kFewTiles ? kBlock / 6 : kBlock / 2),
        units_(ceil_div(grid_.count(), unit_)),
        threads_(std::min(threads, units_)),
        block_(std::min(shape.c > kManyChannels ? kBlock / 2 : kBlock,
                        ceil_div(units_, threads_) * unit_)),
        room_(ceil_div(block_, cut.row_unit) * cut.row_unit),
        outputs_(std::min(shape.k, most_outputs(shape.c, cut.panel))),
        panel_(std::min(shape.k, cut.panel)),
        cursor_(scratch),
        filters_(
            cursor_.take<float>(Filters::count(kElements<kOut>, shape.c, outputs_, cut.panel))),
        inputs_(cursor_.take<float>(threads_ * elements(shape.c))),
        products_(cursor_.take<float>(threads_ * elements(panel_))) {
    if (gathers == Gathers::statistics) moments_ = PartMoments(units_, shape.k, cursor_);
    if (gathers == Gathers::norm_sums) norm_sums_ = cursor_.take<float>(units_ * 2 * shape.k);
  }

  int64_t scratch_bytes() const { return cursor_.used(); }

  /// `transform(outputs, to)` gives the filters of some outputs. x may go through a norm.
  template <class Transform>
  void run(const float* x, const InputNorm* norm, const float* bias, float* y,
           const BatchStatistics& statistics, const Transform& transform) {
    norm_ = norm;
    bias_ = bias;
    multiply(x, y, transform);
    if (gathers_ == Gathers::statistics)
      join_moments(
          moments_, [&](int64_t i) { return grid_.pixels_of(tiles_of(i)); }, statistics);
  }

  /// The outputs are the gradient of what `norm` gave of `input`: g gets that of what went into the
  /// activation, and [k] its sums and those of its product with input - mean.
  template <class Transform>
  void run_into(const InputNorm& norm, const float* input, const float* x, float* g, double* sum_g,
                double* sum_gx, const Transform& transform) {
    into_.emplace(norm, shape_.k, input, g);
    multiply(x, g, transform);
    join_norm_sums(norm_sums_, units_, shape_.k, sum_g, sum_gx);
  }

 private:
  template <class Transform>
  void multiply(const float* x, float* y, const Transform& transform) const {
    for (int64_t k = 0; k < shape_.k; k += outputs_) {
      const Channels outputs{k, std::min(outputs_, shape_.k - k)};
      const Filters filters(filters_, kElements<kOut>, shape_.c, outputs.count);
      transform(outputs, filters);
      parallel_pieces(units_, threads_, [&](int64_t thread, int64_t begin, int64_t end) {
        const int64_t last = std::min(end * unit_, grid_.count());
        for (int64_t at = begin * unit_; at < last; at += block_)
          convolve({at, std::min(at + block_, last)}, outputs, filters, x, y, thread);
        stream_fence();
      });
    }
  }

  /// Tiles of a block at the most: as many as a second-level cache keeps with what is computed
  /// from them.
  static constexpr int64_t kBlock = kOut == 2 ? 48 : 24;
  static constexpr int64_t kManyChannels = 256;  ///< above, a block is half as long
  /// Outputs whose filters are kept at a time: fewer, but a panel at least, where they have more
  /// elements than this.
  static constexpr int64_t kMostOutputs = 128, kMostOfFilters = 1200000;
  static constexpr int64_t kFewTiles = 512;      ///< which threads share in smaller units

  static int64_t most_outputs(int64_t inputs, int64_t panel) {
    int64_t outputs = kMostOutputs;
    while (outputs > panel && kElements<kOut> * inputs * outputs > kMostOfFilters) outputs /= 2;
    return outputs;
  }
  /// Floats that elements of a thread's block take.
  int64_t elements(int64_t channels) const {
    return Elements::count(kElements<kOut>, room_, channels);
  }

  Tiles tiles_of(int64_t unit) const {
    return {unit * unit_, std::min((unit + 1) * unit_, grid_.count())};
  }

  void convolve(Tiles tiles, Channels outputs, const Filters& filters, const float* x, float* y,
                int64_t thread) const {
    const Elements inputs(inputs_ + thread * elements(shape_.c), room_, shape_.c);
    grid_.transform_x(x, norm_, tiles, {0, shape_.c}, inputs);
    for (int64_t k = 0; k < outputs.count; k += kPanel) {
      const int64_t width = filters.width(k);
      const Elements products(products_ + thread * elements(panel_), room_, width);
      for (int e = 0; e < kElements<kOut>; ++e)
        tiles::multiply<tiles::Ends::spare, false>({.a = inputs.of(e),
                                                    .a_row = inputs.row(),
                                                    .a_step = 1,
                                                    .b = filters.of(e, 0, k),
                                                    .b_row = width,
                                                    .c = products.of(e),
                                                    .c_row = products.row(),
                                                    .rows = tiles.size(),
                                                    .columns = width,
                                                    .depth = shape_.c});
      for (int64_t at = tiles.begin; at < tiles.end; at += unit_)
        finish(products.from(at - tiles.begin), at / unit_, {outputs.begin + k, width}, y);
    }
  }

  /// Of each unit: the sums of g, and behind them of g * (input - mean).
  float* norm_sums_of(int64_t unit) const { return norm_sums_ + unit * 2 * shape_.k; }

  /// y of a unit, and its sums.
  void finish(const Elements& products, int64_t unit, Channels channels, float* y) const {
    const Tiles tiles = tiles_of(unit);
    if (into_) {
      float* sums = norm_sums_of(unit);
      for (float* each : {sums, sums + shape_.k})
        std::fill_n(each + channels.begin, channels.count, 0.0f);
      return grid_.transform_into(products, tiles, channels, *into_, y, sums);
    }
    if (gathers_ == Gathers::nothing)
      return grid_.transform_to_y(products, tiles, channels, bias_, y, nullptr);
    alignas(kVectorBytes) char room[3 * kPanel * sizeof(float)];
    ScratchCursor cursor(room);
    const PartSums sums(kPanel, cursor);
    grid_.transform_to_y(products, tiles, channels, bias_, y, &sums);
    sums.finish(moments_, unit, grid_.pixels_of(tiles), channels.begin, channels.count);
  }

  ConvShape shape_;
  Grid<kOut> grid_;
  Gathers gathers_;
  int64_t unit_, units_;  ///< of tiles, each with statistics of its own
  int64_t threads_, block_;
  int64_t room_;  ///< tiles that the elements of a block have room for
  int64_t outputs_, panel_;
  ScratchCursor cursor_;
  float *filters_, *inputs_, *products_;
  PartMoments moments_;
  float* norm_sums_ = nullptr;
  const InputNorm* norm_ = nullptr;
  const float* bias_ = nullptr;
  std::optional<GradientTiles> into_;
};

Gathers statistics_if(bool are_wanted) {
  return are_wanted ? Gathers::statistics : Gathers::nothing;
}

/// A data gradient as a convolution of dy to dx.
ConvShape turned(const ConvShape& shape) {
  ConvShape other = shape;
  std::swap(other.c, other.k);
  std::swap(other.h, other.p);
  std::swap(other.w, other.q);
  other.padding = {kFilter - 1 - shape.padding.h, kFilter - 1 - shape.padding.w};
  return other;
}

/// The convolution that gives y, or dx.
ConvShape to_convolve(const ConvShape& shape, ConvPass pass) {
  return pass == ConvPass::backward_data ? turned(shape) : shape;
}

/// Multiplications of a pair of channels.
template <int kOut>
int64_t multiplications(const ConvShape& shape) {
  return Grid<kOut>(shape).count() * kElements<kOut>;
}

/// Of which products repay the transforms.
template <int kOut>
constexpr int64_t kFewestChannels = kOut == 4 ? 16 : 32;

/// Are there enough tiles to outweigh the transforms of the filters, and is the scratch not too
/// much?
template <int kOut>
bool is_worth_it(const ConvShape& shape, ConvPass pass) {
  if (pass == ConvPass::backward_weight) return is_weight_gradient_worth_it<kOut>(shape);
  const ConvShape outputs = to_convolve(shape, pass);
  // A direct sum is slow on images of a single tile.
  const bool is_tiny = outputs.p <= kOut && outputs.q <= kOut;
  const int64_t fewest_tiles = kOut == 4 || is_tiny ? 32 : 48;
  if (Grid<kOut>(outputs).count() < fewest_tiles) return false;
  return is_affordable(
      shape, Convolution<kOut>(outputs, Gathers::nothing, kThreadsOfChoice, nullptr, kCutOfChoice)
                 .scratch_bytes());
}

int64_t data_gradient_scratch(const ConvShape& shape, Gathers gathers) {
  return with_tile(shape, ConvPass::backward_data, [&]<int kOut>(TileOf<kOut>) {
    return Convolution<kOut>(turned(shape), gathers, num_threads(), nullptr).scratch_bytes();
  });
}

/// `body(convolution of dy to dx, its filters)`.
template <class Body>
void with_data_gradient(const ConvShape& shape, Gathers gathers, const float* weight, void* scratch,
                        const Body& body) {
  with_tile(shape, ConvPass::backward_data, [&]<int kOut>(TileOf<kOut>) {
    body(Convolution<kOut>(turned(shape), gathers, num_threads(), scratch),
         [&](Channels outputs, const Filters& to) {
           transform_turned_filters<kInputs<kOut>>(weight, outputs, shape.k, shape.c, to);
         });
  });
}

}  // namespace

int outputs_of_tile(const ConvShape& shape, ConvPass pass) {
  const bool is_possible = shape.groups == 1 && shape.r == kFilter && shape.s == kFilter &&
                           shape.stride == Pair(1) && shape.dilation == Pair(1) &&
                           shape.padding.h < kFilter && shape.padding.w < kFilter &&
                           shape.c % kWidth == 0 && shape.k % kWidth == 0;
  // A kernel for few pixels is faster (ops/cpu/few_pixels.h).
  const int64_t few = pass == ConvPass::backward_weight ? kFewPixels : kFewPixelsOfOneCall;
  if (!is_possible || has_few_pixels(shape, few)) return 0;
  const ConvShape outputs = to_convolve(shape, pass);
  const int64_t channels = std::min(shape.c, shape.k);
  // The transforms are dearer: a tenth of the multiplications is not worth them.
  if (channels >= kFewestChannels<4> &&
      10 * multiplications<4>(outputs) < 9 * multiplications<2>(outputs) &&
      is_worth_it<4>(shape, pass))
    return 4;
  return channels >= kFewestChannels<2> && is_worth_it<2>(shape, pass) ? 2 : 0;
}

int64_t forward_scratch(const ConvShape& shape, bool with_statistics) {
  return with_tile(shape, ConvPass::forward, [&]<int kOut>(TileOf<kOut>) {
    return Convolution<kOut>(shape, statistics_if(with_statistics), num_threads(), nullptr)
        .scratch_bytes();
  });
}

void forward(const ConvShape& shape, const float* x, const float* weight, const float* bias,
             float* y, const BatchStatistics& statistics, void* scratch, const InputNorm* norm) {
  with_tile(shape, ConvPass::forward, [&]<int kOut>(TileOf<kOut>) {
    Convolution<kOut>(shape, statistics_if(statistics.are_wanted()), num_threads(), scratch)
        .run(x, norm, bias, y, statistics, [&](Channels outputs, const Filters& to) {
          transform_filters<kInputs<kOut>>(weight, outputs, shape.c, to);
        });
  });
}

int64_t backward_data_scratch(const ConvShape& shape) {
  return data_gradient_scratch(shape, Gathers::nothing);
}

void backward_data(const ConvShape& shape, const float* dy, const float* weight, float* dx,
                   void* scratch) {
  with_data_gradient(shape, Gathers::nothing, weight, scratch,
                     [&](auto gradient, const auto& filters) {
                       gradient.run(dy, nullptr, nullptr, dx, {}, filters);
                     });
}

int64_t backward_into_norm_scratch(const ConvShape& shape) {
  return data_gradient_scratch(shape, Gathers::norm_sums);
}

void backward_into_norm(const ConvShape& shape, const InputNorm& norm, const float* x,
                        const float* dy, const float* weight, float* g, double* sum_g,
                        double* sum_gx, void* scratch) {
  with_data_gradient(shape, Gathers::norm_sums, weight, scratch,
                     [&](auto gradient, const auto& filters) {
                       gradient.run_into(norm, x, dy, g, sum_g, sum_gx, filters);
                     });
}

}  // namespace brim::cpu::winograd
