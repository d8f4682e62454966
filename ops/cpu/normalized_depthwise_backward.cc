// All gradients of a depthwise convolution and of the batch norm before it, in two sweeps over x.
// While rows of it are in the cache the first normalises them for the weight's gradient, and takes
// the sums that the norm's gradient wants from tiles of the convolution's data gradient, in
// registers. The second makes dx: of the same tiles once more where dy is much smaller than x and
// the window has fast paths, else of what the first left in its place.
#include <algorithm>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/ops/cpu/depthwise_gradient.h"
#include "brim/ops/cpu/depthwise_weight_sweep.h"
#include "brim/ops/cpu/norm_backward.h"
#include "brim/ops/cpu/normalized_backward.h"
#include "brim/ops/cpu/pixel_sums.h"

namespace brim::cpu {
namespace {

using Attributes = kernel::NormalizedConv2dAttributes;
using weight_sweep::WeightSweep;

using V = Vector<float>;  // they fill the channels

/// A row of x, beside which tiles of the gradient of what was normalised come by, in registers: all
/// of it is compiled into the loops of the sweep.
template <Activation activation>
struct NormRow {
  const NormCoefficients<float>& by;
  const float* x;
  int64_t channels;

  /// Sets `g`, the gradient of what went into the activation, and `off`, x - mean.
  template <int kCount>
  [[gnu::always_inline]] void take(const V (&gradient)[kCount], int64_t pixel, int64_t c,
                                   V (&g)[kCount], V (&off)[kCount]) const {
    const V mean = load<V>(by.mean + c), scale = load<V>(by.scale + c),
            shift = load<V>(by.shift + c);
    const float* from = opaque(x + pixel * channels + c);
#pragma GCC unroll 16
    for (int j = 0; j < kCount; ++j) {
      const V value = load<V>(from + j * channels);
      g[j] = activate_backward(activation, gradient[j], normalized(value, mean, scale, shift));
      off[j] = value - mean;
    }
  }
};

/// A sink of tiles (depthwise_sweep.h): sums of g and, behind them, of g * (x - mean). It puts g
/// into a row, if kKeeps.
template <Activation activation, bool kKeeps>
struct SumSink {
  static constexpr bool kWholeVectors = true;

  NormRow<activation> row;
  float *sums, *kept;

  SumSink starting_at(int64_t) const { return *this; }
  template <int kCount>
  [[gnu::always_inline]] void operator()(const V (&gradient)[kCount], int64_t pixel,
                                         int64_t c) const {
    V g[kCount], off[kCount], sum_g{}, sum_gx{};
    row.take(gradient, pixel, c, g, off);
    if constexpr (kKeeps) put_pixels(g, kept + pixel * row.channels + c, row.channels, false);
#pragma GCC unroll 16
    for (int j = 0; j < kCount; ++j) {
      sum_g += g[j];
      sum_gx = fma(g[j], off[j], sum_gx);
    }
    float *of_g = sums + c, *of_gx = of_g + row.channels;
    store(of_g, load<V>(of_g) + sum_g);
    store(of_gx, load<V>(of_gx) + sum_gx);
  }
};

/// Is g cheaper made again for dx, from a small dy, than kept?
template <class Window>
constexpr bool kMakesAgain = false;
template <int kTaps>
constexpr bool kMakesAgain<Window<kTaps, 2>> = true;

class NormalizedDepthwiseBackward {
 public:
  NormalizedDepthwiseBackward(const KernelCall& call, const Attributes& attributes)
      : call_(call),
        epsilon_(attributes.norm.epsilon),
        shape_(call.in[0].shape, call.in[6].shape, call.in[5].shape, attributes.window),
        rows_(call.in[0]),
        streaming_(worth_streaming(rows_, call.out[0].as<float>())),
        weights_{shape_, x(), dy()},
        pieces_(pieces_of(shape_)),
        threads_(std::min<int64_t>(num_threads(), pieces_)),
        cursor_(call.scratch),
        norm_(call.in[0], attributes.norm.activation, cursor_),
        by_(cursor_, rows_),
        way_(has_weight() ? &norm_ : nullptr, shape_, threads_, cursor_, /*margins=*/true),
        blocks_(take_weights<float>(shape_, cursor_)),
        row_(cursor_.take<float>(threads_ * row_step())),
        of_norm_(cursor_, 2 * shape_.c, threads_, pieces_),
        of_weight_(cursor_, has_weight() ? shape_.r * shape_.s * shape_.c : 0, threads_, pieces_) {}

  int64_t scratch_bytes() const { return cursor_.used(); }

  void run() {
    const GradientSweep<float> data(shape_, dy(), blocks_, nullptr);
    norm_.set(call_.in[1], call_.in[2], call_.in[3], call_.in[4], epsilon_);
    data.order(call_.in[6].as<float>(), blocks_);
    with_window<float>(shape_, [&](auto window) {
      with_activation(norm_.activation(), [&](auto activation) {
        sum<activation()>(window, data);
        finish_sums();
        if constexpr (kMakesAgain<decltype(window)>)
          write<activation()>(window, data);
        else
          finish_norm_gradient(rows_, norm_.coefficients(), by_, x(), dx_row(0));
      });
    });
  }

 private:
  /// Room for the sums of each thread and the totals of each piece.
  struct Sums {
    int64_t size, step;
    float* sums;
    double* totals;

    Sums(ScratchCursor& scratch, int64_t count, int64_t threads, int64_t pieces)
        : size(count),
          step(round_up(count + 16, 16)),  // threads share no cache line
          sums(scratch.take<float>(threads * step)),
          totals(scratch.take<double>(pieces * step)) {}
    PixelSums<float> of(int64_t thread, int64_t piece) const {
      return {sums + thread * step, totals + piece * step, size};
    }
  };

  /// Of the pixels, each with sums of its own: a function of the shape, so that the number of
  /// threads changes no bit. Each has enough pixels to repay its sums.
  static int64_t pieces_of(const ConvShape& shape) {
    constexpr int64_t kMost = 32, kPixels = 192;
    return std::clamp<int64_t>(shape.pixels() / kPixels, 1, std::min(kMost, shape.n * shape.p));
  }

  bool has_weight() const { return call_.out[3].present; }  ///< is its gradient wanted?
  const float* x() const { return call_.in[0].as<float>(); }
  const float* dy() const { return call_.in[5].as<float>(); }
  int64_t row_elements() const { return shape_.w * shape_.c; }
  int64_t row_step() const { return round_up(row_elements() + 16, 16); }
  float* row_of(int64_t thread) const { return row_ + thread * row_step(); }
  template <Activation activation>
  NormRow<activation> norm_row(int64_t i) const {
    return {norm_.coefficients(), x() + i * row_elements(), shape_.c};
  }
  float* dx_row(int64_t i) const { return call_.out[0].as<float>() + i * row_elements(); }

  /// The weight's gradient and the norm's sums; g goes where dx will be, if it is not made again.
  template <Activation activation, class Window>
  void sum(Window window, const GradientSweep<float>& data) {
    const int64_t rows = shape_.n * shape_.p;
    parallel_pieces(pieces_, threads_, [&](int64_t thread, int64_t first, int64_t last) {
      InputRows<float> in(shape_, x(), way_, thread);
      for (int64_t piece = first; piece < last; ++piece) {
        PixelSums<float> of_norm = of_norm_.of(thread, piece),
                         of_weight = of_weight_.of(thread, piece);
        of_norm.clear();
        of_weight.clear();
        for (int64_t i = rows * piece / pieces_; i < rows * (piece + 1) / pieces_; ++i) {
          if (has_weight()) {
            weights_.row(window, in.under(i / shape_.p, weights_.rows_under(i)), i, of_weight.sums);
            of_weight.note(shape_.q);
          }
          for_rows_of(i, [&](const Plane<float>& of_dy, int64_t y, int64_t row) {
            constexpr bool kKeeps = !kMakesAgain<Window>;
            float* kept = streaming_ ? row_of(thread) : dx_row(row);
            data.row(window, of_dy, y,
                     SumSink<activation, kKeeps>{norm_row<activation>(row), of_norm.sums, kept});
            of_norm.note(shape_.w);
            if (kKeeps && streaming_) stream_row(kept, dx_row(row));
          });
        }
        of_norm.flush();
        of_weight.flush();
      }
      stream_fence();
    });
  }

  /// The coefficients of dx, and the norm's other gradients.
  void finish_sums() {
    double* total = of_norm_.totals;
    for (int64_t piece = 1; piece < pieces_; ++piece)
      for (int64_t i = 0; i < of_norm_.size; ++i) total[i] += total[piece * of_norm_.step + i];
    finish_norm_sums(rows_, total, total + shape_.c,
                     {call_.in[1], call_.in[3], call_.in[4], epsilon_}, call_.out[1], call_.out[2],
                     by_);
    if (has_weight())
      weight_sweep::join_totals(shape_, of_weight_.totals, pieces_, of_weight_.step,
                                call_.out[3].as<float>());
  }

  /// In order: stores of tiles would leave lines half written.
  void stream_row(const float* from, float* to) const {
    for (int64_t i = 0; i < row_elements(); i += kLanes<V>) stream(to + i, load<V>(from + i));
  }

  /// dx, with g made again; from the last piece to the first, whose rows are still in the cache.
  template <Activation activation, class Window>
  void write(Window window, const GradientSweep<float>& data) {
    const int64_t rows = shape_.n * shape_.p;
    parallel_pieces(pieces_, threads_, [&](int64_t thread, int64_t first, int64_t last) {
      float* gradient = row_of(thread);
      for (int64_t piece = last; piece-- > first;)
        for (int64_t i = rows * piece / pieces_; i < rows * (piece + 1) / pieces_; ++i)
          for_rows_of(i, [&](const Plane<float>& of_dy, int64_t y, int64_t row) {
            data.row(window, of_dy, y, RowSink<float>{gradient, shape_.c, false});
            for (int64_t at = 0; at < row_elements(); at += shape_.c)
              write_pixel<activation>(gradient + at, row * row_elements() + at);
          });
      stream_fence();
    });
  }

  /// dx of the one from element `at` on, with `gradient` that of what comes out of the activation.
  template <Activation activation>
  void write_pixel(const float* gradient, int64_t at) const {
    const NormCoefficients<float>& by = norm_.coefficients();
    const float* from = x() + at;
    put_row(dx_row(0), at, shape_.c, streaming_, [&]<class Lanes>(int64_t i) {
      prefetch_ahead(from + i);
      const Lanes value = load<Lanes>(from + i), mean = load<Lanes>(by.mean + i),
                  scale = load<Lanes>(by.scale + i);
      const Lanes g = activate_backward(activation, load<Lanes>(gradient + i),
                                        normalized(value, mean, scale, load<Lanes>(by.shift + i)));
      return tilted(scale * g, value - mean, load<Lanes>(by_.slope + i),
                    load<Lanes>(by_.level + i));
    });
  }

  /// use(image of dy, y, row of the batch) for the rows of x that are the share of row i of dy.
  template <class Use>
  void for_rows_of(int64_t i, const Use& use) const {
    const int64_t image = i / shape_.p, j = i % shape_.p;
    const Plane<float> of_dy{dy() + image * shape_.p * shape_.q * shape_.c, shape_.q, shape_.c};
    for (int64_t y = shape_.h * j / shape_.p; y < shape_.h * (j + 1) / shape_.p; ++y)
      use(of_dy, y, image * shape_.h + y);
  }

  const KernelCall& call_;
  double epsilon_;
  ConvShape shape_;
  ChannelRows rows_;
  bool streaming_;  ///< past the caches
  WeightSweep<float> weights_;
  int64_t pieces_, threads_;
  ScratchCursor cursor_;
  InputNorm norm_;
  GradientCoefficients<float> by_;
  OnTheWay way_;
  float* blocks_;
  float* row_;  ///< of each thread
  Sums of_norm_, of_weight_;
};

}  // namespace

int64_t normalized_depthwise_backward_scratch(const KernelCall& call,
                                              const Attributes& attributes) {
  return NormalizedDepthwiseBackward(call, attributes).scratch_bytes();
}

void normalized_depthwise_backward(const KernelCall& call, const Attributes& attributes) {
  NormalizedDepthwiseBackward(call, attributes).run();
}

}  // namespace brim::cpu
