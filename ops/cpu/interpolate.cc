#include "brim/ops/interpolate.h"

#include "brim/ops/cpu/pool_loops.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/cpu/weighted_rows.h"
#include "brim/ops/interpolate_taps.h"

namespace brim::cpu {
namespace {

/// The taps of each output along one axis, and the outputs that read each input.
struct AxisTable {
  InterpolateTaps* taps;
  Range* readers;

  AxisTable(ScratchCursor& cursor, int64_t in, int64_t out)
      : taps(cursor.take<InterpolateTaps>(out)), readers(cursor.take<Range>(in)) {}

  void fill(const InterpolateLine& line) const {
    for (int64_t i = 0; i < line.out; ++i) taps[i] = line.taps(i);
    for (int64_t i = 0; i < line.in; ++i) readers[i] = line.readers(i);
  }
  double weight(int64_t output, int64_t input) const { return taps[output].weight(input); }
};

struct Tables {
  AxisTable rows, columns;

  Tables(ScratchCursor& cursor, const PoolShape& s)
      : rows(cursor, s.in_h, s.out_h), columns(cursor, s.in_w, s.out_w) {}

  void fill(const Interpolation& i, const PoolShape& s) const {
    const bool blend = i.mode == InterpolateMode::bilinear;
    rows.fill({i.h, blend, s.in_h, s.out_h});
    columns.fill({i.w, blend, s.in_w, s.out_w});
  }
};

PoolShape forward_shape(const KernelCall& call) { return {call.in[0].shape, call.out[0].shape}; }
PoolShape backward_shape(const KernelCall& call) { return {call.out[0].shape, call.in[0].shape}; }

template <PoolShape (*shape_of)(const KernelCall&)>
int64_t scratch_bytes(const KernelCall& call, const Interpolation&) {
  ScratchCursor cursor(nullptr);
  Tables(cursor, shape_of(call));
  return cursor.used();
}

template <class T>
void interpolate_kernel(const KernelCall& call, const Interpolation& attributes) {
  PoolShape shape = forward_shape(call);
  ScratchCursor cursor(call.scratch);
  Tables tables(cursor, shape);
  tables.fill(attributes, shape);
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  int64_t work = attributes.mode == InterpolateMode::bilinear ? 4 : 1;
  for_pixels(shape.images, shape.out_h, shape.out_w, work * shape.channels,
             [&](int64_t n, int64_t i, int64_t j) {
               const InterpolateTaps &row = tables.rows.taps[i], &column = tables.columns.taps[j];
               T* to = y + ((n * shape.out_h + i) * shape.out_w + j) * shape.channels;
               auto pixel = [&](int64_t h, int64_t w) {
                 return x + ((n * shape.in_h + h) * shape.in_w + w) * shape.channels;
               };
               if (row.low == row.high && column.low == column.high) {
                 std::copy_n(pixel(row.low, column.low), shape.channels, to);
                 return;
               }
               weighted_rows(shape.channels, to, [&](const auto& add) {
                 for (int64_t h = row.low; h <= row.high; ++h)
                   for (int64_t w = column.low; w <= column.high; ++w)
                     add(pixel(h, w), tables.rows.weight(i, h) * tables.columns.weight(j, w));
               });
             });
}

// Each input collects from the outputs that read it, in row-major order.
template <class T>
void interpolate_backward_kernel(const KernelCall& call, const Interpolation& attributes) {
  PoolShape shape = backward_shape(call);
  ScratchCursor cursor(call.scratch);
  Tables tables(cursor, shape);
  tables.fill(attributes, shape);
  const T* dy = call.in[0].as<T>();
  T* dx = call.out[0].as<T>();
  int64_t work = shape.channels * (shape.out_h / shape.in_h + 1) * (shape.out_w / shape.in_w + 1);
  for_pixels(shape.images, shape.in_h, shape.in_w, work, [&](int64_t n, int64_t h, int64_t w) {
    const Range &rows = tables.rows.readers[h], &columns = tables.columns.readers[w];
    T* to = dx + ((n * shape.in_h + h) * shape.in_w + w) * shape.channels;
    weighted_rows(shape.channels, to, [&](const auto& add) {
      for (int64_t i = rows.begin; i < rows.end; ++i)
        for (int64_t j = columns.begin; j < columns.end; ++j)
          add(dy + ((n * shape.out_h + i) * shape.out_w + j) * shape.channels,
              tables.rows.weight(i, h) * tables.columns.weight(j, w));
    });
  });
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::interpolate, DeviceType::cpu, dtype, interpolate_kernel<T>,
                  scratch_bytes<forward_shape>);
  register_kernel(kernel::interpolate_backward, DeviceType::cpu, dtype,
                  interpolate_backward_kernel<T>, scratch_bytes<backward_shape>);
}

}  // namespace

void register_interpolate() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
