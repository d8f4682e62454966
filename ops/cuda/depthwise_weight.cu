// The weight gradient of depthwise convolution: for each tap of each channel a sum over all
// outputs. Strips of outputs are shared out to pieces, by their number alone; threads add what they
// meet in what S is computed in, then in double, and the sums of threads and pieces are joined in
// one order. A thread has one channel: the sums of a pack, for each tap, are too many registers.
#include <algorithm>

#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/depthwise.h"
#include "brim/ops/cuda/depthwise_window.cuh"
#include "brim/ops/cuda/pixel.cuh"
#include "brim/ops/cuda/reduce.cuh"

namespace brim::cuda {
namespace {

template <class S>
inline constexpr int kOutputs = kStrip<Single<S>>;  // of a strip

/// A block has `width` channels along x, `rows` strips at a time along y, and the rows of the
/// window along z, which read the same outputs.
struct WeightPlan {
  int64_t strips, channels;       // strips: of all images
  int64_t tiles = 1, pieces = 1;  // of channels, of strips
  unsigned width = 1, rows = 1;

  static constexpr unsigned kThreads = 256;
  static constexpr int64_t kBlocks = 1024;     // fill any GPU
  static constexpr int64_t kLeastStrips = 16;  // that are worth a thread of one more piece

  WeightPlan(const ConvShape& shape, int64_t strips) : strips(strips), channels(shape.c) {
    while (width < 32 && width < channels) width *= 2;
    while (width * rows * 2 * static_cast<unsigned>(shape.r) <= kThreads) rows *= 2;
    tiles = (channels + width - 1) / width;
    pieces = std::clamp<int64_t>(strips / (rows * kLeastStrips), 1,
                                 std::max<int64_t>(kBlocks / tiles, 1));
  }
};

/// The sums of one row of the window.
template <class S, int kWindow, int kStride>
struct RowSums {
  using T = Compute<S>;
  ConvShape shape;
  const S *x, *dy;

  /// Of strips first, first + step, ... < end.
  __device__ void fold(int64_t first, int64_t end, int64_t step, int r, int64_t c,
                       double (&totals)[kWindow]) const {
    constexpr int64_t kFlush = 256 / kOutputs<S>;  // strips added in T
    for (int64_t strip = first; strip < end;) {
      T sums[kWindow] = {};
      for (int64_t i = 0; i < kFlush && strip < end; ++i, strip += step) add(strip, r, c, sums);
      for (int s = 0; s < kWindow; ++s) totals[s] += static_cast<double>(sums[s]);
    }
  }

 private:
  __device__ void add(int64_t strip, int r, int64_t c, T (&sums)[kWindow]) const {
    const Pixel at(strip * shape.c + c, shape.p, strips_of<Single<S>>(shape.q), shape.c);
    const int64_t h = at.h * kStride - shape.padding.h + r, first = at.w * kOutputs<S>;
    if (h < 0 || h >= shape.h) return;
    Single<S> gradient[kOutputs<S>], line[kStretch<Single<S>, kWindow, kStride>];
    load_line(dy + (at.n * shape.p + at.h) * shape.q * shape.c + c, first, shape.q, shape.c,
              gradient);
    load_line(x + (at.n * shape.h + h) * shape.w * shape.c + c, first * kStride - shape.padding.w,
              shape.w, shape.c, line);
    BRIM_UNROLL
    for (int j = 0; j < kOutputs<S>; ++j)
      if (first + j < shape.q) {
        BRIM_UNROLL
        for (int s = 0; s < kWindow; ++s)
          sums[s] = fma(widen(gradient[j].of[0]), widen(line[j * kStride + s].of[0]), sums[s]);
      }
  }
};

/// pieces: [piece][tap][channel].
template <class S, int kWindow, int kStride>
__global__ void weight_kernel(RowSums<S, kWindow, kStride> by, WeightPlan plan, double* pieces) {
  const int64_t tile = blockIdx.x % plan.tiles, piece = blockIdx.x / plan.tiles;
  const int64_t begin = plan.strips * piece / plan.pieces;
  const int64_t end = plan.strips * (piece + 1) / plan.pieces;
  const int64_t c = tile * blockDim.x + threadIdx.x;
  const bool inside = c < plan.channels;
  double totals[kWindow] = {};
  if (inside)
    by.fold(begin + threadIdx.y, end, blockDim.y, static_cast<int>(threadIdx.z), c, totals);
  // [tap of the row][z][y][x]
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  double* own =
      shared_memory<double>() + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  for (int s = 0; s < kWindow; ++s) own[s * threads] = totals[s];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
      for (int s = 0; s < kWindow; ++s) own[s * threads] += own[s * threads + half * blockDim.x];
  }
  if (threadIdx.y != 0 || !inside) return;
  for (int s = 0; s < kWindow; ++s)
    pieces[((piece * kWindow + threadIdx.z) * kWindow + s) * plan.channels + c] = own[s * threads];
}

/// Adds up the pieces. Columns: tap by tap, its channels.
template <class S>
struct JoinPieces {
  using State = double;
  int64_t channels, taps;
  const double* pieces;
  S* dweight;
  __device__ double fold(int64_t, int64_t column, int64_t first, int64_t units,
                         int64_t step) const {
    double sum = 0;
    for (int64_t piece = first; piece < units; piece += step)
      sum += pieces[piece * taps * channels + column];
    return sum;
  }
  __device__ static void join(double& sum, const double& later) { sum += later; }
  __device__ void finish(int64_t, int64_t column, double sum) const {
    dweight[column % channels * taps + column / channels] =
        round_to<S>(static_cast<Compute<S>>(sum));
  }
};

/// The scratch of a fast path.
template <class S>
struct WeightPieces {
  WeightPlan plan;
  ReducePlan join;
  double *pieces, *partial;

  WeightPieces(ScratchCursor& cursor, const ConvShape& shape)
      : plan(shape, shape.n * shape.p * strips_of<Single<S>>(shape.q)),
        join(1, plan.pieces, shape.r * shape.s * shape.c),
        pieces(cursor.take<double>(join.units * join.columns)),
        partial(take_partial<JoinPieces<S>>(cursor, join)) {}
};

template <class S, int kWindow, int kStride>
void sum_strips(const KernelCall& call, const ConvShape& shape, const View& x, const View& dy,
                const View& dweight) {
  ScratchCursor cursor(call.scratch);
  const WeightPieces<S> scratch(cursor, shape);
  const WeightPlan& plan = scratch.plan;
  const size_t threads = size_t{plan.width} * plan.rows * kWindow;
  launch_kernel("depthwise_backward_weight", weight_kernel<S, kWindow, kStride>,
                {grid_size("depthwise_backward_weight", plan.tiles * plan.pieces),
                 {plan.width, plan.rows, kWindow},
                 threads * kWindow * sizeof(double)},
                call.stream, RowSums<S, kWindow, kStride>{shape, x.as<S>(), dy.as<S>()}, plan,
                scratch.pieces);
  reduce("depthwise_backward_weight", call, scratch.join,
         JoinPieces<S>{shape.c, shape.r * shape.s, scratch.pieces, dweight.as<S>()},
         scratch.partial);
}

/// Any window: a reduction (reduce.cuh) over all outputs, whose columns are the channels of each
/// tap.
template <class S>
struct AnyWindow {
  using State = double;
  ConvShape shape;
  const S *x, *dy;
  S* dweight;

  ReducePlan plan() const { return {1, shape.pixels(), shape.r * shape.s * shape.c}; }
  __device__ double fold(int64_t, int64_t column, int64_t first, int64_t units,
                         int64_t step) const {
    const int64_t tap = column / shape.c, c = column % shape.c;
    const int64_t top = tap / shape.s * shape.dilation.h - shape.padding.h;
    const int64_t left = tap % shape.s * shape.dilation.w - shape.padding.w;
    double sum = 0;
    for (int64_t i = first; i < units; i += step) {
      const Pixel at(i * shape.c + c, shape.p, shape.q, shape.c);
      const int64_t h = at.h * shape.stride.h + top, w = at.w * shape.stride.w + left;
      if (h < 0 || h >= shape.h || w < 0 || w >= shape.w) continue;
      const auto value = widen(x[((at.n * shape.h + h) * shape.w + w) * shape.c + c]);
      sum = fma(static_cast<double>(widen(dy[i * shape.c + c])), static_cast<double>(value), sum);
    }
    return sum;
  }
  __device__ static void join(double& sum, const double& later) { sum += later; }
  __device__ void finish(int64_t, int64_t column, double sum) const {
    dweight[column % shape.c * shape.r * shape.s + column / shape.c] =
        round_to<S>(static_cast<Compute<S>>(sum));
  }
};

}  // namespace

template <class S>
int64_t depthwise_backward_weight_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  choose_window(
      shape, [&]<int, int>() { WeightPieces<S>(cursor, shape); },
      [&] {
        const AnyWindow<S> any{shape, nullptr, nullptr, nullptr};
        take_partial<AnyWindow<S>>(cursor, any.plan());
      });
  return cursor.used();
}

template <class S>
void depthwise_backward_weight(const KernelCall& call, const ConvShape& shape, const View& x,
                               const View& dy, const View& dweight) {
  choose_window(
      shape,
      [&]<int kWindow, int kStride>() {
        sum_strips<S, kWindow, kStride>(call, shape, x, dy, dweight);
      },
      [&] {
        const AnyWindow<S> any{shape, x.as<S>(), dy.as<S>(), dweight.as<S>()};
        ScratchCursor cursor(call.scratch);
        reduce("depthwise_backward_weight", call, any.plan(), any,
               take_partial<AnyWindow<S>>(cursor, any.plan()));
      });
}

#define BRIM_INSTANTIATE(S)                                                                    \
  template int64_t depthwise_backward_weight_scratch<S>(const ConvShape&);                     \
  template void depthwise_backward_weight<S>(const KernelCall&, const ConvShape&, const View&, \
                                             const View&, const View&);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
BRIM_INSTANTIATE(Float16)
BRIM_INSTANTIATE(BFloat16)
#undef BRIM_INSTANTIATE

}  // namespace brim::cuda
