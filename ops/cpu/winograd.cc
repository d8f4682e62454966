#include "brim/ops/cpu/winograd.h"

#include <algorithm>
#include <utility>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/affordable.h"
#include "brim/ops/cpu/tile_product.h"
#include "brim/ops/cpu/transpose.h"
#include "brim/ops/cpu/winograd_grid.h"

namespace brim::cpu::winograd {
namespace {

using tiles::kPanel;
using tiles::kRowUnit;

/// Elements of some outputs' filters, [panel of outputs][element][input][output of the panel].
class Filters {
 public:
  Filters(float* data, int64_t inputs, int64_t outputs)
      : data_(data), inputs_(inputs), outputs_(outputs) {}

  /// Of the panel with this output.
  int64_t width(int64_t output) const {
    return std::min(kPanel, outputs_ - output / kPanel * kPanel);
  }
  float* of(int e, int64_t input, int64_t output) const {
    const int64_t panel = output / kPanel * kPanel;
    return data_ + panel * inputs_ * kElements + (e * inputs_ + input) * width(output) + output -
           panel;
  }

 private:
  float* data_;
  int64_t inputs_, outputs_;
};

/// Elements of a filter for a vector of its channels, weight [3][3][channels]; `turned` by half a
/// circle.
void transform_weight(const float* weight, int64_t channels, bool turned, V (&elements)[kIn][kIn]) {
  V taps[kFilter][kFilter];
  for (int at = 0; at < kTaps; ++at)
    taps[at / kFilter][at % kFilter] = load<V>(weight + (turned ? kTaps - 1 - at : at) * channels);
  transform_square<kFilter, kIn>(transform_filter, taps, elements);
}

/// Filters of the outputs from weight [output][3][3][input]: vectors of inputs become vectors of
/// outputs.
void transform_filters(const float* weight, Channels outputs, int64_t inputs, const Filters& to) {
  parallel_for(outputs.count / kWidth, 1, [&](int64_t begin, int64_t end) {
    V squares[kElements][kWidth], elements[kIn][kIn];
    for (int64_t k = begin * kWidth; k < end * kWidth; k += kWidth)
      for (int64_t c = 0; c < inputs; c += kWidth) {
        for (int64_t i = 0; i < kWidth; ++i) {
          const int64_t filter = outputs.begin + k + i;
          transform_weight(weight + filter * kTaps * inputs + c, inputs, false, elements);
          for (int e = 0; e < kElements; ++e) squares[e][i] = elements[e / kIn][e % kIn];
        }
        for (int e = 0; e < kElements; ++e) {
          transpose(squares[e]);
          for (int64_t i = 0; i < kWidth; ++i) store(to.of(e, c + i, k), squares[e][i]);
        }
      }
  });
}

/// Those of the data gradient from weight [input][3][3][channels], of which the outputs are some.
void transform_turned_filters(const float* weight, Channels outputs, int64_t inputs,
                              int64_t channels, const Filters& to) {
  constexpr int64_t kGrain = 8;
  parallel_for(inputs, kGrain, [&](int64_t begin, int64_t end) {
    V elements[kIn][kIn];
    for (int64_t k = begin; k < end; ++k)
      for (int64_t c = 0; c < outputs.count; c += kWidth) {
        transform_weight(weight + k * kTaps * channels + outputs.begin + c, channels, true,
                         elements);
        for (int e = 0; e < kElements; ++e) store(to.of(e, k, c), elements[e / kIn][e % kIn]);
      }
  });
}

/// A convolution of x [n,h,w,c] to y [n,p,q,k].
class Convolution {
 public:
  Convolution(const ConvShape& shape, bool with_statistics, int64_t threads, void* scratch)
      : shape_(shape),
        grid_(shape),
        with_statistics_(with_statistics),
        unit_(grid_.count() < kFewTiles ? kBlock / 6 : kBlock / 2),
        units_(ceil_div(grid_.count(), unit_)),
        threads_(std::min(threads, units_)),
        block_(std::min(shape.c > kManyChannels ? kBlock / 2 : kBlock,
                        ceil_div(units_, threads_) * unit_)),
        room_(ceil_div(block_, kRowUnit) * kRowUnit),
        outputs_(std::min(shape.k, kMostOutputs)),
        panel_(std::min(shape.k, kPanel)),
        cursor_(scratch),
        filters_(cursor_.take<float>(kElements * shape.c * outputs_)),
        inputs_(cursor_.take<float>(threads_ * Elements::count(room_, shape.c))),
        products_(cursor_.take<float>(threads_ * Elements::count(room_, panel_))) {
    if (with_statistics) moments_ = PartMoments(units_, shape.k, cursor_);
  }

  int64_t scratch_bytes() const { return cursor_.used(); }

  /// `transform(outputs, to)` gives the filters of some outputs.
  template <class Transform>
  void run(const float* x, const float* bias, float* y, const BatchStatistics& statistics,
           const Transform& transform) const {
    for (int64_t k = 0; k < shape_.k; k += outputs_) {
      const Channels outputs{k, std::min(outputs_, shape_.k - k)};
      const Filters filters(filters_, shape_.c, outputs.count);
      transform(outputs, filters);
      parallel_pieces(units_, threads_, [&](int64_t thread, int64_t begin, int64_t end) {
        const int64_t last = std::min(end * unit_, grid_.count());
        for (int64_t at = begin * unit_; at < last; at += block_)
          convolve({at, std::min(at + block_, last)}, outputs, filters, x, bias, y, thread);
      });
    }
    if (with_statistics_)
      join_moments(
          moments_, [&](int64_t i) { return grid_.pixels_of(tiles_of(i)); }, statistics);
  }

 private:
  static constexpr int64_t kManyChannels = 256;  ///< above, a block is half as long
  static constexpr int64_t kMostOutputs = 128;   ///< whose filters are kept at a time
  static constexpr int64_t kFewTiles = 512;      ///< which threads share in smaller units

  Tiles tiles_of(int64_t unit) const {
    return {unit * unit_, std::min((unit + 1) * unit_, grid_.count())};
  }

  void convolve(Tiles tiles, Channels outputs, const Filters& filters, const float* x,
                const float* bias, float* y, int64_t thread) const {
    const Elements inputs(inputs_ + thread * Elements::count(room_, shape_.c), room_, shape_.c);
    grid_.transform_x(x, tiles, {0, shape_.c}, inputs);
    for (int64_t k = 0; k < outputs.count; k += kPanel) {
      const int64_t width = filters.width(k);
      const Elements products(products_ + thread * Elements::count(room_, panel_), room_, width);
      for (int e = 0; e < kElements; ++e)
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
        finish(products.from(at - tiles.begin), at / unit_, {outputs.begin + k, width}, bias, y);
    }
  }

  /// y of a unit, and its statistics.
  void finish(const Elements& products, int64_t unit, Channels channels, const float* bias,
              float* y) const {
    const Tiles tiles = tiles_of(unit);
    if (!with_statistics_) return grid_.transform_to_y(products, tiles, channels, bias, y, nullptr);
    alignas(kVectorBytes) char room[3 * kPanel * sizeof(float)];
    ScratchCursor cursor(room);
    const PartSums sums(kPanel, cursor);
    grid_.transform_to_y(products, tiles, channels, bias, y, &sums);
    sums.finish(moments_, unit, grid_.pixels_of(tiles), channels.begin, channels.count);
  }

  ConvShape shape_;
  Grid grid_;
  bool with_statistics_;
  int64_t unit_, units_;  ///< of tiles, each with statistics of its own
  int64_t threads_, block_;
  int64_t room_;  ///< tiles that the elements of a block have room for
  int64_t outputs_, panel_;
  ScratchCursor cursor_;
  float *filters_, *inputs_, *products_;
  PartMoments moments_;
};

/// The data gradient as a convolution of dy to dx.
ConvShape turned(const ConvShape& shape) {
  ConvShape other = shape;
  std::swap(other.c, other.k);
  std::swap(other.h, other.p);
  std::swap(other.w, other.q);
  other.padding = {kFilter - 1 - shape.padding.h, kFilter - 1 - shape.padding.w};
  return other;
}

}  // namespace

bool suits(const ConvShape& shape, ConvPass pass) {
  constexpr int64_t kFewestChannels = 32;
  const auto are_enough = [](int64_t channels) {
    return channels >= kFewestChannels && channels % kWidth == 0;
  };
  const bool is_possible = shape.groups == 1 && shape.r == kFilter && shape.s == kFilter &&
                           shape.stride == Pair(1) && shape.dilation == Pair(1) &&
                           shape.padding.h < kFilter && shape.padding.w < kFilter;
  if (!is_possible || !are_enough(shape.c) || !are_enough(shape.k)) return false;
  if (pass == ConvPass::backward_weight) return suits_backward_weight(shape);
  const ConvShape outputs = pass == ConvPass::forward ? shape : turned(shape);
  // A direct sum is slow on images of a single tile.
  const int64_t fewest_tiles = outputs.p <= kOut && outputs.q <= kOut ? 64 : 128;
  return Grid(outputs).count() >= fewest_tiles &&
         is_affordable(shape,
                       Convolution(outputs, false, kThreadsOfChoice, nullptr).scratch_bytes());
}

int64_t forward_scratch(const ConvShape& shape, bool with_statistics) {
  return Convolution(shape, with_statistics, num_threads(), nullptr).scratch_bytes();
}

void forward(const ConvShape& shape, const float* x, const float* weight, const float* bias,
             float* y, const BatchStatistics& statistics, void* scratch) {
  Convolution(shape, statistics.are_wanted(), num_threads(), scratch)
      .run(x, bias, y, statistics, [&](Channels outputs, const Filters& to) {
        transform_filters(weight, outputs, shape.c, to);
      });
}

int64_t backward_data_scratch(const ConvShape& shape) {
  return Convolution(turned(shape), false, num_threads(), nullptr).scratch_bytes();
}

void backward_data(const ConvShape& shape, const float* dy, const float* weight, float* dx,
                   void* scratch) {
  Convolution(turned(shape), false, num_threads(), scratch)
      .run(dy, nullptr, dx, {}, [&](Channels outputs, const Filters& to) {
        transform_turned_filters(weight, outputs, shape.k, shape.c, to);
      });
}

}  // namespace brim::cpu::winograd
