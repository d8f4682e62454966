// Sums over any axes of a contiguous tensor. Pieces are cut by shape alone, and their sums are
// added in order, so the result does not depend on the number of threads.
#include "brim/ops/sum.h"

#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/core/strided_loop.h"
#include "brim/ops/reduced_axes.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/cpu/row_sum.h"

namespace brim::cpu {
namespace {

constexpr int64_t kChunk = 4096;   // elements of a long reduced row that are one unit of work
constexpr int64_t kColumns = 512;  // sums that a task holds on its stack
constexpr int64_t kRows = 8;       // rows added in T before their sum goes into a double
constexpr int64_t kPiece = 32768;  // least elements of a piece
constexpr int64_t kTasks = 64;     // enough for every thread

struct Plan : ReducedAxes {
  int64_t chunks = 1, tiles = 1, pieces = 1;

  Plan(const Shape& x, const Shape& y) : ReducedAxes(x, y) {
    if (inner_reduced)
      chunks = (inner + kChunk - 1) / kChunk;
    else
      tiles = (inner + kColumns - 1) / kColumns;
    int64_t tasks = std::max<int64_t>(kept.count * tiles, 1);
    pieces = std::clamp<int64_t>(std::min(numel(x) / tasks / kPiece, kTasks / tasks), 1,
                                 std::max<int64_t>(units(), 1));
  }
  int64_t units() const { return reduced.count * chunks; }
  int64_t width() const { return inner_reduced ? 1 : inner; }
};

// x, or x * factor.
template <class T>
struct Plain {
  const T* x;
  T operator()(int64_t i) const { return x[i]; }
};
template <class T>
struct Product {
  const T *x, *factor;
  T operator()(int64_t i) const { return x[i] * factor[i]; }
};

// sums[k] += the sum over units [begin, end) of element `at + unit + k`
template <class Load>
void column_sums(const Load& load, const AxisWalk& rows, int64_t at, int64_t begin, int64_t end,
                 double* sums, int64_t count) {
  int64_t unit = begin;
  for (; unit + kRows <= end; unit += kRows) {
    int64_t r[kRows];
    for (int64_t i = 0; i < kRows; ++i) r[i] = at + rows.offset(unit + i);
    for (int64_t k = 0; k < count; ++k)
      sums[k] += static_cast<double>(
          ((load(r[0] + k) + load(r[1] + k)) + (load(r[2] + k) + load(r[3] + k))) +
          ((load(r[4] + k) + load(r[5] + k)) + (load(r[6] + k) + load(r[7] + k))));
  }
  for (; unit < end; ++unit) {
    int64_t row = at + rows.offset(unit);
    for (int64_t k = 0; k < count; ++k) sums[k] += static_cast<double>(load(row + k));
  }
}

// The sums of one task: `width` of them from column `column` on, over the units of a piece.
template <class Load>
void task_sums(const Plan& plan, const Load& load, int64_t kept, int64_t column, int64_t width,
               int64_t piece, double* sums) {
  int64_t at = plan.kept.offset(kept), units = plan.units();
  int64_t begin = units * piece / plan.pieces, end = units * (piece + 1) / plan.pieces;
  std::fill_n(sums, width, 0.0);
  if (!plan.inner_reduced)
    return column_sums(load, plan.reduced, at + column, begin, end, sums, width);
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t from = unit % plan.chunks * kChunk;
    *sums += row_sum(load, at + plan.reduced.offset(unit / plan.chunks) + from,
                     std::min(kChunk, plan.inner - from));
  }
}

// One short sum per row, many rows: nothing but the sums may cost time.
template <class T, class Load>
void reduce_rows(const Plan& plan, const Load& load, T* y, double scale) {
  parallel_for(plan.kept.count, std::max<int64_t>(kPiece / 2 / plan.inner, 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   y[i] = static_cast<T>(scale * row_sum(load, plan.kept.offset(i), plan.inner));
               });
}

template <class T, class Load>
void reduce(const Plan& plan, const Load& load, T* y, double scale, double* partial) {
  if (plan.inner_reduced && plan.units() == 1) return reduce_rows(plan, load, y, scale);
  int64_t width = plan.width(), tasks = plan.kept.count * plan.tiles * plan.pieces;
  int64_t work = std::max<int64_t>(plan.units() * plan.inner / plan.tiles / plan.pieces, 1);
  parallel_for(tasks, std::max<int64_t>(kPiece / 2 / work, 1), [&](int64_t begin, int64_t end) {
    double sums[kColumns];
    for (int64_t task = begin; task < end; ++task) {
      int64_t piece = task % plan.pieces, tile = task / plan.pieces % plan.tiles;
      int64_t kept = task / plan.pieces / plan.tiles;
      int64_t column = tile * kColumns, count = std::min(kColumns, width - column);
      task_sums(plan, load, kept, column, count, piece, sums);
      if (plan.pieces > 1) {
        std::copy_n(sums, count, partial + (kept * plan.pieces + piece) * width + column);
      } else {
        T* to = y + kept * width + column;
        for (int64_t k = 0; k < count; ++k) to[k] = static_cast<T>(scale * sums[k]);
      }
    }
  });
  if (plan.pieces == 1) return;
  for (int64_t i = 0; i < plan.kept.count * width; ++i) {
    const double* at = partial + i / width * plan.pieces * width + i % width;
    double sum = 0;
    for (int64_t piece = 0; piece < plan.pieces; ++piece) sum += at[piece * width];
    y[i] = static_cast<T>(scale * sum);
  }
}

double* partial_sums(const Plan& plan, ScratchCursor& cursor) {
  return cursor.take<double>(plan.pieces > 1 ? plan.kept.count * plan.pieces * plan.width() : 0);
}

int64_t sum_scratch(const KernelCall& call, const kernel::SumAttributes&) {
  ScratchCursor cursor(nullptr);
  partial_sums(Plan(call.in[0].shape, call.out[0].shape), cursor);
  return cursor.used();
}

template <class T>
void sum_kernel(const KernelCall& call, const kernel::SumAttributes& attributes) {
  const View &x = call.in[0], &y = call.out[0];
  T* to = y.as<T>();
  if (x.numel() == 0) {
    std::fill_n(to, y.numel(), static_cast<T>(0 * attributes.scale));
    return;
  }
  Plan plan(x.shape, y.shape);
  ScratchCursor cursor(call.scratch);
  double* partial = partial_sums(plan, cursor);
  if (call.in.size() > 1 && call.in[1].present)
    reduce(plan, Product<T>{x.as<T>(), call.in[1].as<T>()}, to, attributes.scale, partial);
  else
    reduce(plan, Plain<T>{x.as<T>()}, to, attributes.scale, partial);
}

template <class T>
void sum_backward_kernel(const KernelCall& call, const kernel::SumAttributes& attributes) {
  const View &dy = call.in[0], &dx = call.out[0];
  T scale = static_cast<T>(attributes.scale);
  StridedLoop<2> loop(dx.shape, {dx.strides, broadcast_strides(dy.shape, dy.strides, dx.shape)});
  loop.run([&](const Steps<2>& at, int64_t count, const Steps<2>& step) {
    T* to = dx.as<T>() + at[0];
    const T* from = dy.as<T>() + at[1];
    if (step[1] == 0)
      std::fill_n(to, count, scale * *from);
    else
      for (int64_t i = 0; i < count; ++i) to[i] = scale * from[i * step[1]];
  });
}

}  // namespace

void register_sum() {
  register_kernel(kernel::sum, DeviceType::cpu, Dtype::float32, sum_kernel<float>, sum_scratch);
  register_kernel(kernel::sum, DeviceType::cpu, Dtype::float64, sum_kernel<double>, sum_scratch);
  register_kernel(kernel::sum_backward, DeviceType::cpu, Dtype::float32,
                  sum_backward_kernel<float>);
  register_kernel(kernel::sum_backward, DeviceType::cpu, Dtype::float64,
                  sum_backward_kernel<double>);
}

}  // namespace brim::cpu
