// The weight gradient of depthwise convolution: for each tap of each channel a sum over all
// outputs. Strips of outputs are shared out to pieces, by their number alone; threads add what they
// meet in what S is computed in, then in double, and the sums of threads and pieces are joined in
// one order, which is the same for threads of one channel and of a pack.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/depthwise.h"
#include "brim/ops/cuda/depthwise_window.cuh"
#include "brim/ops/cuda/pixel.cuh"
#include "brim/ops/cuda/reduce.cuh"

// Before a loop that is not to be unrolled: what it reads is to leave registers.
#ifdef __CUDACC__
#define BRIM_ROLLED _Pragma("unroll 1")
#else
#define BRIM_ROLLED
#endif

namespace brim::cuda {
namespace {

/// Outputs of a strip, for packs too.
template <class S>
inline constexpr int kOutputs = kStrip<Single<S>>;

/// A block has `width` channels along x, alone or in packs, `rows` strips at a time along y, and
/// the rows of the window along z, which read the same outputs.
struct WeightPlan {
  uint32_t strips;  // of all images
  int64_t channels;
  unsigned tiles, pieces;  // of channels, of strips
  unsigned width = 1, rows = 1;

  static constexpr unsigned kThreads = 384;     // of one channel each; packs need a half, or fewer
  static constexpr unsigned kBlocks = 1024;     // fill any GPU
  static constexpr unsigned kLeastStrips = 16;  // that are worth a thread of one more piece

  WeightPlan(const ConvShape& shape, int64_t count)
      : strips(static_cast<uint32_t>(count)), channels(shape.c) {
    while (width < 32 && width < channels) width *= 2;
    while (width * rows * 2 * static_cast<unsigned>(shape.r) <= kThreads) rows *= 2;
    tiles = grid_size("depthwise_backward_weight", (channels + width - 1) / width);
    pieces = std::clamp(strips / (rows * kLeastStrips), 1u, std::max(kBlocks / tiles, 1u));
  }

  __device__ uint32_t begin_of(unsigned piece) const {
    return strips / pieces * piece + std::min(strips % pieces, piece);
  }
};

/// Strips of all images.
template <class S>
int64_t strips_in(const ConvShape& shape) {
  return shape.n * shape.p * strips_of<Single<S>>(shape.q);
}

/// Sums of a thread, tap by tap of a row of the window its channels P, in the memory that its block
/// shares: as doubles they are too many for registers, where compilers
/// would put them if they were not volatile.
template <class P, int kWindow>
inline constexpr int kTotals = kWindow* P::kCount;

/// sums[k] += gradient[k] * x[k]
template <class P, class T>
__device__ void add_tap(const P& gradient, const P& x, T (&sums)[P::kCount]) {
  BRIM_UNROLL
  for (int k = 0; k < P::kCount; ++k) sums[k] = fma(widen(gradient.of[k]), widen(x.of[k]), sums[k]);
}

/// The sums of one row of the window.
template <class P, int kWindow, int kStride>
struct RowSums {
  using S = typename P::Element;
  using T = Compute<S>;
  ConvShape shape;
  const S *x, *dy;

  /// Of strips first, first + step, ... < end.
  __device__ void fold(uint32_t first, uint32_t end, uint32_t step, int r, int64_t c,
                       volatile double* totals) const {
    constexpr int kFlush = 256 / kOutputs<S>;  // strips added in T
    for (int64_t strip = first; strip < end;) {
      T sums[kWindow][P::kCount] = {};
      for (int i = 0; i < kFlush && strip < end; ++i, strip += step)
        add(static_cast<uint32_t>(strip), r, c, sums);
      BRIM_UNROLL
      for (int s = 0; s < kWindow; ++s)
        for (int k = 0; k < P::kCount; ++k) {
          volatile double& total = totals[s * P::kCount + k];
          total = total + static_cast<double>(sums[s][k]);
        }
    }
  }

 private:
  __device__ void add(uint32_t strip, int r, int64_t c, T (&sums)[kWindow][P::kCount]) const {
    const auto width = static_cast<uint32_t>(strips_of<Single<S>>(shape.q));
    const auto height = static_cast<uint32_t>(shape.p);
    const uint32_t row = strip / width;
    const int64_t n = row / height, p = row % height, q = int64_t{strip % width} * kOutputs<S>;
    const int64_t h = p * kStride - shape.padding.h + r;
    if (h < 0 || h >= shape.h) return;
    const S* gradients = dy + int64_t{row} * shape.q * shape.c + c;
    const S* inputs = x + (n * shape.h + h) * shape.w * shape.c + c;
    BRIM_ROLLED
    for (int j = 0; j < kOutputs<S>; j += kAtOnce) add_some(gradients, inputs, q + j, sums);
  }

  /// Outputs of the strip whose inputs registers hold.
  static constexpr int kAtOnce = kStrip<P, kWindow, kStride>;
  static_assert(kOutputs<S> % kAtOnce == 0);

  __device__ void add_some(const S* gradients, const S* inputs, int64_t first,
                           T (&sums)[kWindow][P::kCount]) const {
    P gradient[kAtOnce], line[kStretch<P, kWindow, kStride>];
    load_line(gradients, first, shape.q, shape.c, gradient);
    load_line(inputs, first * kStride - shape.padding.w, shape.w, shape.c, line);
    BRIM_UNROLL
    for (int j = 0; j < kAtOnce; ++j)
      if (first + j < shape.q) {
        BRIM_UNROLL
        for (int s = 0; s < kWindow; ++s) add_tap(gradient[j], line[j * kStride + s], sums[s]);
      }
  }
};

/// pieces: [piece][tap][channel].
template <class P, int kWindow, int kStride>
__global__ void __launch_bounds__(WeightPlan::kThreads / std::min(P::kCount, 2), 2)
    weight_kernel(RowSums<P, kWindow, kStride> by, WeightPlan plan, double* pieces) {
  const unsigned tile = blockIdx.x % plan.tiles, piece = blockIdx.x / plan.tiles;
  const uint32_t begin = plan.begin_of(piece), end = plan.begin_of(piece + 1);
  const int64_t c = (int64_t{tile} * blockDim.x + threadIdx.x) * P::kCount;
  const bool inside = c < plan.channels;
  constexpr int kOwn = kTotals<P, kWindow>;
  double* own = shared_memory<double>() +
                ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) * kOwn;
  for (int i = 0; i < kOwn; ++i) own[i] = 0;
  if (inside) by.fold(begin + threadIdx.y, end, blockDim.y, static_cast<int>(threadIdx.z), c, own);
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
      for (int i = 0; i < kOwn; ++i) own[i] += own[half * blockDim.x * kOwn + i];
  }
  if (threadIdx.y != 0 || !inside) return;
  for (int s = 0; s < kWindow; ++s)
    for (int k = 0; k < P::kCount; ++k)
      pieces[((int64_t{piece} * kWindow + threadIdx.z) * kWindow + s) * plan.channels + c + k] =
          own[s * P::kCount + k];
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
      : plan(shape, strips_in<S>(shape)),
        join(1, plan.pieces, shape.r * shape.s * shape.c),
        pieces(cursor.take<double>(join.units * join.columns)),
        partial(take_partial<JoinPieces<S>>(cursor, join)) {}
};

template <class S, int kWindow, int kStride>
void sum_strips(const KernelCall& call, const ConvShape& shape, const View& x, const View& dy,
                const View& dweight) {
  constexpr const char* kName = "depthwise_backward_weight";
  ScratchCursor cursor(call.scratch);
  const WeightPieces<S> scratch(cursor, shape);
  const WeightPlan& plan = scratch.plan;
  choose_channels<S>(shape.c, {x.as<S>(), dy.as<S>()}, [&]<class P>() {
    const dim3 block{std::max(plan.width / P::kCount, 1u), plan.rows, kWindow};
    launch_kernel(kName, weight_kernel<P, kWindow, kStride>,
                  {grid_size(kName, int64_t{plan.tiles} * plan.pieces), block,
                   size_t{block.x} * block.y * block.z * kTotals<P, kWindow> * sizeof(double)},
                  call.stream, RowSums<P, kWindow, kStride>{shape, x.as<S>(), dy.as<S>()}, plan,
                  scratch.pieces);
  });
  reduce(kName, call, scratch.join,
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

/// Strips are numbered by 32 bits.
template <class S, class Fast, class Other>
void choose_way(const ConvShape& shape, const Fast& fast, const Other& other) {
  if (strips_in<S>(shape) > std::numeric_limits<uint32_t>::max()) return other();
  choose_window(shape, fast, other);
}

}  // namespace

template <class S>
int64_t depthwise_backward_weight_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  choose_way<S>(
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
  choose_way<S>(
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
