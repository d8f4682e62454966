// interpolate and its gradient, one thread an element. What is read along an axis is in tables in
// scratch, which two small kernels fill; sums are in double and in the CPU's order.
#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/pixel.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/interpolate_taps.h"
#include "brim/ops/pool_taps.h"

namespace brim::cuda {
namespace {

/// The taps of each output along one axis, and the outputs that read each input.
struct AxisTable {
  InterpolateLine line;
  InterpolateTaps* taps;
  Range* readers;

  AxisTable(ScratchCursor& cursor, const InterpolateLine& line)
      : line(line),
        taps(cursor.take<InterpolateTaps>(line.out)),
        readers(cursor.take<Range>(line.in)) {}

  __device__ double weight(int64_t output, int64_t input) const {
    return taps[output].weight(input);
  }
};

struct FillTable {
  AxisTable table;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0];
    if (i < table.line.out) table.taps[i] = table.line.taps(i);
    if (i < table.line.in) table.readers[i] = table.line.readers(i);
  }
};

struct Tables {
  AxisTable rows, columns;

  Tables(ScratchCursor& cursor, const PoolShape& s, const Interpolation& by)
      : rows(cursor, {by.h, by.mode == InterpolateMode::bilinear, s.in_h, s.out_h}),
        columns(cursor, {by.w, by.mode == InterpolateMode::bilinear, s.in_w, s.out_w}) {}

  void fill(const KernelCall& call) const {
    for (const AxisTable& table : {rows, columns})
      for_each_element(call, std::max(table.line.in, table.line.out), FillTable{table},
                       "interpolate");
  }
  __device__ double weight(int64_t i, int64_t j, int64_t h, int64_t w) const {
    return rows.weight(i, h) * columns.weight(j, w);
  }
};

template <class S>
struct Interpolate {
  PoolShape shape;
  Tables tables;
  const S* x;
  S* y;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel to(at.of[0], shape.out_h, shape.out_w, shape.channels);
    const InterpolateTaps rows = tables.rows.taps[to.h], columns = tables.columns.taps[to.w];
    double sum = 0;
    for (int64_t h = rows.low; h <= rows.high; ++h)
      for (int64_t w = columns.low; w <= columns.high; ++w) {
        const int64_t from = ((to.n * shape.in_h + h) * shape.in_w + w) * shape.channels + to.c;
        sum += rows.weight(h) * columns.weight(w) * static_cast<double>(widen(x[from]));
      }
    y[at.of[0]] = round_to<S>(static_cast<Compute<S>>(sum));
  }
};

/// Each input collects from the outputs that read it.
template <class S>
struct InterpolateBackward {
  PoolShape shape;
  Tables tables;
  const S* dy;
  S* dx;
  __device__ void operator()(const Offsets<1>& at) const {
    const Pixel to(at.of[0], shape.in_h, shape.in_w, shape.channels);
    const Range rows = tables.rows.readers[to.h], columns = tables.columns.readers[to.w];
    double sum = 0;
    for (int64_t i = rows.begin; i < rows.end; ++i)
      for (int64_t j = columns.begin; j < columns.end; ++j) {
        const int64_t from = ((to.n * shape.out_h + i) * shape.out_w + j) * shape.channels + to.c;
        sum += tables.weight(i, j, to.h, to.w) * static_cast<double>(widen(dy[from]));
      }
    dx[at.of[0]] = round_to<S>(static_cast<Compute<S>>(sum));
  }
};

PoolShape forward_shape(const KernelCall& call) { return {call.in[0].shape, call.out[0].shape}; }
PoolShape backward_shape(const KernelCall& call) { return {call.out[0].shape, call.in[0].shape}; }

template <PoolShape (*shape_of)(const KernelCall&)>
int64_t scratch_bytes(const KernelCall& call, const Interpolation& by) {
  ScratchCursor cursor(nullptr);
  Tables(cursor, shape_of(call), by);
  return cursor.used();
}

template <template <class> class Body, class S, PoolShape (*shape_of)(const KernelCall&)>
void run(const KernelCall& call, const Interpolation& by) {
  const PoolShape shape = shape_of(call);
  ScratchCursor cursor(call.scratch);
  const Tables tables(cursor, shape, by);
  tables.fill(call);
  for_each_element(call, call.out[0].numel(),
                   Body<S>{shape, tables, call.in[0].as<S>(), call.out[0].as<S>()}, "interpolate");
}

template <class S>
void register_for() {
  constexpr DeviceType kCuda = DeviceType::cuda;
  register_kernel(kernel::interpolate, kCuda, dtype_of<S>, run<Interpolate, S, forward_shape>,
                  scratch_bytes<forward_shape>);
  register_kernel(kernel::interpolate_backward, kCuda, dtype_of<S>,
                  run<InterpolateBackward, S, backward_shape>, scratch_bytes<backward_shape>);
}

}  // namespace

void register_interpolate() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
