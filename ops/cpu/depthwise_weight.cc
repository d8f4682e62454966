// Weight gradient of depthwise convolution.
#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/depthwise.h"
#include "brim/ops/cpu/depthwise_weight_sweep.h"
#include "brim/ops/cpu/pixel_sums.h"

namespace brim::cpu {
namespace {

using weight_sweep::WeightSweep;

template <class T>
struct WeightScratch {
  int64_t step;  // from one thread's to the next; threads share no cache line
  T* sums;
  double* totals;
  WeightScratch(ScratchCursor& cursor, const ConvShape& shape)
      : step((shape.r * shape.s * shape.c + 31) / 16 * 16),
        sums(cursor.take<T>(step * num_threads())),
        totals(cursor.take<double>(step * num_threads())) {}
};

/// Each thread sums its own rows; the threads' totals are added in order.
template <class T, class Window>
void sum_rows(Window window, const WeightSweep<T>& sweep, Compute<T>* dweight, void* scratch) {
  const ConvShape& shape = sweep.shape;
  const int64_t rows = shape.n * shape.p, image = shape.h * shape.w * shape.c;
  const int64_t pieces = std::clamp<int64_t>(shape.pixels() * shape.c / kDepthwiseGrain, 1,
                                             std::clamp<int64_t>(rows, 1, num_threads()));
  ScratchCursor cursor(scratch);
  WeightScratch<Compute<T>> parts(cursor, shape);
  std::fill_n(parts.totals, parts.step * pieces, 0.0);
  parallel_pieces(rows, pieces, [&](int64_t piece, int64_t begin, int64_t end) {
    PixelSums<Compute<T>> mine{parts.sums + piece * parts.step, parts.totals + piece * parts.step,
                               shape.r * shape.s * shape.c};
    mine.clear();
    for (int64_t i = begin; i < end; ++i) {
      sweep.row(window, Plane<T>{sweep.x + i / shape.p * image, shape.w, shape.c}, i, mine.sums);
      mine.note(shape.q);
    }
    mine.flush();
  });
  weight_sweep::join_totals(shape, parts.totals, pieces, parts.step, dweight);
}

}  // namespace

template <class T>
int64_t depthwise_backward_weight_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  WeightScratch<Compute<T>>(cursor, shape);
  return cursor.used();
}

template <class T>
void depthwise_backward_weight(const ConvShape& shape, const T* x, const T* dy, Compute<T>* dweight,
                               void* scratch) {
  const WeightSweep<T> sweep{shape, x, dy};
  with_window<T>(shape, [&](auto window) { sum_rows(window, sweep, dweight, scratch); });
}

#define BRIM_INSTANTIATE(T)                                                \
  template int64_t depthwise_backward_weight_scratch<T>(const ConvShape&); \
  template void depthwise_backward_weight(const ConvShape&, const T*, const T*, Compute<T>*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
BRIM_INSTANTIATE(BFloat16)
BRIM_INSTANTIATE(Float16)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
