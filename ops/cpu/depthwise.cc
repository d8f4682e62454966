// Forward and data gradient of depthwise convolution.
#include "brim/ops/cpu/depthwise.h"

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/depthwise_gradient.h"
#include "brim/ops/cpu/depthwise_statistics.h"
#include "brim/ops/cpu/depthwise_sweep.h"

namespace brim::cpu {
namespace {

/// Forward.
template <class T>
Sweep<T> sweep_of(const ConvShape& shape, const T* x, const Compute<T>* weights, const T* bias,
                  T* y) {
  return {shape, x, weights, bias, y, shape.h, shape.w, shape.p, shape.q, shape.padding};
}

template <class T>
void forward_sweep(const Sweep<T>& sweep) {
  with_window<T>(sweep.shape, [&](auto window) { sweep.correlate(window); });
}

}  // namespace

template <class T>
int64_t depthwise_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  take_weights<T>(shape, cursor);
  return cursor.used();
}

template <class T>
void depthwise(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y,
               void* scratch) {
  ScratchCursor cursor(scratch);
  Compute<T>* blocks = take_weights<T>(shape, cursor);
  reorder_weights(shape, weight, false, blocks);
  forward_sweep(sweep_of(shape, x, blocks, bias, y));
}

bool depthwise_gathers_statistics(const ConvShape& shape) {
  constexpr int64_t kWidest = 256;  // a part is whole rows, and its sums are in float32
  return shape.is_depthwise() && shape.c % kLanes<Vector<float>> == 0 && shape.pixels() > 0 &&
         shape.q <= kWidest;
}

namespace {

/// Forward with statistics, of an input that is normalised on the way or, where `norm` is null,
/// not.
class StatisticsSweep {
 public:
  StatisticsSweep(const ConvShape& shape, const InputNorm* norm, void* scratch)
      : shape_(shape),
        cursor_(scratch),
        blocks_(take_weights<float>(shape, cursor_)),
        moments_(shape, num_threads(), cursor_),
        way_(norm, shape, moments_.threads(), cursor_) {}
  int64_t scratch_bytes() const { return cursor_.used(); }

  void run(const float* x, const float* weight, const float* bias, float* y,
           const BatchStatistics& statistics) const {
    reorder_weights(shape_, weight, false, blocks_);
    Sweep<float> sweep = sweep_of(shape_, x, blocks_, bias, y);
    sweep.moments = &moments_;
    sweep.way = way_;
    forward_sweep(sweep);
    if (statistics.are_wanted()) moments_.finish(statistics);
  }

 private:
  const ConvShape& shape_;
  ScratchCursor cursor_;
  float* blocks_;
  RowMoments moments_;
  OnTheWay way_;
};

}  // namespace

int64_t depthwise_with_statistics_scratch(const ConvShape& shape) {
  return StatisticsSweep(shape, nullptr, nullptr).scratch_bytes();
}

void depthwise_with_statistics(const ConvShape& shape, const float* x, const float* weight,
                               const float* bias, float* y, const BatchStatistics& statistics,
                               void* scratch) {
  StatisticsSweep(shape, nullptr, scratch).run(x, weight, bias, y, statistics);
}

int64_t normalized_depthwise_scratch(const ConvShape& shape, const InputNorm& norm) {
  return StatisticsSweep(shape, &norm, nullptr).scratch_bytes();
}

void normalized_depthwise(const ConvShape& shape, const InputNorm& norm, const float* x,
                          const float* weight, const float* bias, float* y,
                          const BatchStatistics& statistics, void* scratch) {
  StatisticsSweep(shape, &norm, scratch).run(x, weight, bias, y, statistics);
}

template <class T>
void depthwise_backward_data(const ConvShape& shape, const T* dy, const T* weight, T* dx,
                             void* scratch) {
  ScratchCursor cursor(scratch);
  Compute<T>* blocks = take_weights<T>(shape, cursor);
  const GradientSweep<T> gradient(shape, dy, blocks, dx);
  gradient.order(weight, blocks);
  gradient.run();
}

#define BRIM_INSTANTIATE(T)                                                           \
  template int64_t depthwise_scratch<T>(const ConvShape&);                            \
  template void depthwise(const ConvShape&, const T*, const T*, const T*, T*, void*); \
  template void depthwise_backward_data(const ConvShape&, const T*, const T*, T*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
BRIM_INSTANTIATE(BFloat16)
BRIM_INSTANTIATE(Float16)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
