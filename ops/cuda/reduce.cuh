// Reductions on a GPU: of `kept` times `columns` results, each over `units` elements, or as many
// values made of them. Results that lie side by side are columns, and a block's threads along x
// have one each, so that a warp reads a stretch; its rows share the units of a column. Where there
// are few results, the units are cut into pieces, in scratch. Cuts follow from the shape alone, and
// what threads and pieces found is joined in one order: a result has the same bits on every GPU.
//
// A reduction R says what is done:
//   using State = ...;   of one result, or of a part of its units; any bytes mean something
//   State fold(kept, column, first, units, step)   of units first, first + step, ... < units
//   static void join(State& state, const State& later)   not of neighbours: order by index yourself
//   void finish(kept, column, const State&)   writes the result
// and, where it can read kPack neighbouring columns at once (reduce_packs),
//   void fold_pack(kept, column, first, units, step, State (&)[kPack])   as `fold`, for each of
//   them
#pragma once

#include <algorithm>

#include "brim/base/cuda/launch.cuh"
#include "brim/core/launch.h"
#include "brim/ops/cuda/channels.cuh"
#include "brim/ops/reduced_axes.h"

namespace brim::cuda {

struct ReducePlan {
  int64_t kept, units, columns;
  int64_t tiles = 1, pieces = 1;  ///< of columns, of units
  unsigned width = 1;             ///< threads along columns; a power of two
  unsigned threads = kThreads;    ///< of a block; a power of two

  static constexpr unsigned kThreads = 256;
  static constexpr int64_t kBlocks = 1024;    // fill any GPU
  static constexpr int64_t kFewFolds = 4;     // units that are worth a thread
  static constexpr int64_t kLeastFolds = 16;  // units that are worth a thread of one more piece

  ReducePlan(int64_t kept, int64_t units, int64_t columns)
      : kept(kept), units(units), columns(columns) {
    while (width < 32 && width < columns) width *= 2;
    while (threads > 32 && units < rows() * kFewFolds) threads /= 2;
    tiles = (columns + width - 1) / width;
    const int64_t blocks = std::max<int64_t>(kept * tiles, 1);
    pieces = std::clamp<int64_t>(std::min(kBlocks / blocks, units / (rows() * kLeastFolds)), 1,
                                 kThreads);
  }

  int64_t rows() const { return threads / width; }
  int64_t blocks() const { return kept * tiles * pieces; }
  /// Threads along x where each has `pack` columns, and how often so many are wanted.
  unsigned pack_width(int pack) const {
    unsigned packs = 1;
    while (packs < width && packs * pack < columns) packs *= 2;
    return packs;
  }
  __host__ __device__ int64_t pack_tiles(int pack, unsigned threads_of_row) const {
    const int64_t of_tile = int64_t{threads_of_row} * pack;
    return (columns + of_tile - 1) / of_tile;
  }
};

/// Where the elements are that a reduction over any axes goes through.
struct ReducedElements {
  AxisWalk kept, reduced;
  int64_t inner;    ///< units that lie side by side; 1 where results do
  int64_t columns;  ///< results that lie side by side

  explicit ReducedElements(const ReducedAxes& axes)
      : kept(axes.kept),
        reduced(axes.reduced),
        inner(axes.inner_reduced ? axes.inner : 1),
        columns(axes.inner_reduced ? 1 : axes.inner) {}

  ReducePlan plan() const { return {kept.count, reduced.count * inner, columns}; }
  __device__ int64_t at(int64_t row, int64_t column, int64_t unit) const {
    return kept.offset(row) + column + reduced.offset(unit / inner) + unit % inner;
  }
};

/// Joins the states of a block's rows, column by column, in the first row.
template <class R>
__device__ void join_rows(typename R::State* states) {
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) R::join(states[at], states[at + half * blockDim.x]);
  }
}

/// partial: [kept][piece][column], for more than one piece.
template <class R>
__global__ void reduce_kernel(R reduction, ReducePlan plan, typename R::State* partial) {
  auto* states = shared_memory<typename R::State>();
  const int64_t block = blockIdx.x;
  const int64_t piece = block % plan.pieces, tile = block / plan.pieces % plan.tiles;
  const int64_t kept = block / plan.pieces / plan.tiles;
  const int64_t column = tile * blockDim.x + threadIdx.x;
  const int64_t begin = plan.units * piece / plan.pieces;
  const int64_t end = plan.units * (piece + 1) / plan.pieces;
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  const bool inside = column < plan.columns;
  // Beyond the last column: a fold of no units.
  states[at] = reduction.fold(kept, inside ? column : 0, begin + threadIdx.y, inside ? end : begin,
                              blockDim.y);
  join_rows<R>(states);
  if (threadIdx.y != 0 || !inside) return;
  if (plan.pieces == 1)
    reduction.finish(kept, column, states[at]);
  else
    partial[(kept * plan.pieces + piece) * plan.columns + column] = states[at];
}

/// As `reduce_kernel`, with kPack columns for each thread along x: the same cuts of the units, and
/// so the same bits. A multiprocessor has room for a second block, whose loads are under way while
/// the first adds.
template <class R>
__global__ void __launch_bounds__(ReducePlan::kThreads, 2)
    reduce_packs_kernel(R reduction, ReducePlan plan, typename R::State* partial) {
  constexpr int kPack = R::kPack;
  auto* states = shared_memory<typename R::State>();
  const int64_t tiles = plan.pack_tiles(kPack, blockDim.x), block = blockIdx.x;
  const int64_t piece = block % plan.pieces, tile = block / plan.pieces % tiles;
  const int64_t kept = block / plan.pieces / tiles;
  const int64_t column = (tile * blockDim.x + threadIdx.x) * kPack;
  const int64_t begin = plan.units * piece / plan.pieces;
  const int64_t end = plan.units * (piece + 1) / plan.pieces;
  const unsigned threads = blockDim.x * blockDim.y, at = threadIdx.y * blockDim.x + threadIdx.x;
  const bool inside = column < plan.columns;
  typename R::State found[kPack];
  reduction.fold_pack(kept, inside ? column : 0, begin + threadIdx.y, inside ? end : begin,
                      blockDim.y, found);
  BRIM_UNROLL
  for (int k = 0; k < kPack; ++k) states[k * threads + at] = found[k];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
      for (int k = 0; k < kPack; ++k)
        R::join(states[k * threads + at], states[k * threads + at + half * blockDim.x]);
  }
  if (threadIdx.y != 0 || !inside) return;
  for (int k = 0; k < kPack; ++k)
    if (plan.pieces == 1)
      reduction.finish(kept, column + k, states[k * threads + at]);
    else
      partial[(kept * plan.pieces + piece) * plan.columns + column + k] = states[k * threads + at];
}

/// One thread a result.
template <class R>
__global__ void join_pieces_kernel(R reduction, ReducePlan plan, const typename R::State* partial) {
  const int64_t result = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (result >= plan.kept * plan.columns) return;
  const int64_t kept = result / plan.columns, column = result % plan.columns;
  const auto* from = partial + kept * plan.pieces * plan.columns + column;
  typename R::State state = *from;
  for (int64_t piece = 1; piece < plan.pieces; ++piece) R::join(state, from[piece * plan.columns]);
  reduction.finish(kept, column, state);
}

/// Of the scratch that `reduce` wants.
template <class R>
typename R::State* take_partial(ScratchCursor& cursor, const ReducePlan& plan) {
  return cursor.take<typename R::State>(plan.pieces > 1 ? plan.kept * plan.pieces * plan.columns
                                                        : 0);
}

/// What comes after either kernel.
template <class R>
void join_pieces(const char* name, const KernelCall& call, const ReducePlan& plan,
                 const R& reduction, typename R::State* partial) {
  if (plan.pieces == 1) return;
  const int64_t results = plan.kept * plan.columns;
  const unsigned blocks =
      grid_size(name, (results + ReducePlan::kThreads - 1) / ReducePlan::kThreads);
  launch_kernel(name, join_pieces_kernel<R>, {blocks, ReducePlan::kThreads}, call.stream, reduction,
                plan, partial);
}

/// Enqueues the reduction. Nothing is done where there are no results.
template <class R>
void reduce(const char* name, const KernelCall& call, const ReducePlan& plan, const R& reduction,
            typename R::State* partial) {
  if (plan.kept * plan.columns == 0) return;
  const auto rows = static_cast<unsigned>(plan.rows());
  launch_kernel(name, reduce_kernel<R>,
                {grid_size(name, plan.blocks()),
                 {plan.width, rows},
                 plan.threads * sizeof(typename R::State)},
                call.stream, reduction, plan, partial);
  join_pieces(name, call, plan, reduction, partial);
}

/// The same bits, for a multiple of kPack columns that `fold_pack` can read.
template <class R>
void reduce_packs(const char* name, const KernelCall& call, const ReducePlan& plan,
                  const R& reduction, typename R::State* partial) {
  if (plan.kept * plan.columns == 0) return;
  const unsigned width = plan.pack_width(R::kPack), rows = static_cast<unsigned>(plan.rows());
  launch_kernel(name, reduce_packs_kernel<R>,
                {grid_size(name, plan.kept * plan.pack_tiles(R::kPack, width) * plan.pieces),
                 {width, rows},
                 size_t{width} * rows * R::kPack * sizeof(typename R::State)},
                call.stream, reduction, plan, partial);
  join_pieces(name, call, plan, reduction, partial);
}

/// `reduce_packs` where packs fill the channels of these buffers, else `reduce`.
template <class S, class R>
void reduce_columns(const char* name, const KernelCall& call, const ReducePlan& plan,
                    std::initializer_list<const S*> buffers, const R& reduction,
                    typename R::State* partial) {
  if (packs_fill<S>(plan.columns, buffers))
    reduce_packs(name, call, plan, reduction, partial);
  else
    reduce(name, call, plan, reduction, partial);
}

}  // namespace brim::cuda
