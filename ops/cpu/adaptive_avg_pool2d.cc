#include "brim/ops/adaptive_avg_pool2d.h"

#include "brim/ops/cpu/pool_loops.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/cpu/weighted_rows.h"

namespace brim::cpu {
namespace {

template <class Body>
void for_each(const Range& rows, const Range& columns, const Body& body) {
  for (int64_t h = rows.begin; h < rows.end; ++h)
    for (int64_t w = columns.begin; w < columns.end; ++w) body(h, w);
}

template <class T>
void adaptive_avg_pool2d_kernel(const KernelCall& call, const NoAttributes&) {
  PoolShape shape(call.in[0].shape, call.out[0].shape);
  const T* x = call.in[0].as<T>();
  T* y = call.out[0].as<T>();
  int64_t work = shape.channels * (shape.in_h / shape.out_h + 1) * (shape.in_w / shape.out_w + 1);
  for_pixels(shape.images, shape.out_h, shape.out_w, work, [&](int64_t n, int64_t i, int64_t j) {
    Range rows = adaptive_window(i, shape.in_h, shape.out_h);
    Range columns = adaptive_window(j, shape.in_w, shape.out_w);
    double share = 1 / static_cast<double>(rows.size() * columns.size());
    T* to = y + ((n * shape.out_h + i) * shape.out_w + j) * shape.channels;
    weighted_rows(shape.channels, to, [&](const auto& add) {
      for_each(rows, columns, [&](int64_t h, int64_t w) {
        add(x + ((n * shape.in_h + h) * shape.in_w + w) * shape.channels, share);
      });
    });
  });
}

template <class T>
void adaptive_avg_pool2d_backward_kernel(const KernelCall& call, const NoAttributes&) {
  PoolShape shape(call.out[0].shape, call.in[0].shape);
  const T* dy = call.in[0].as<T>();
  T* dx = call.out[0].as<T>();
  int64_t work = shape.channels * (shape.out_h / shape.in_h + 1) * (shape.out_w / shape.in_w + 1);
  for_pixels(shape.images, shape.in_h, shape.in_w, work, [&](int64_t n, int64_t h, int64_t w) {
    Range rows = adaptive_window(h, shape.out_h, shape.in_h);
    Range columns = adaptive_window(w, shape.out_w, shape.in_w);
    T* to = dx + ((n * shape.in_h + h) * shape.in_w + w) * shape.channels;
    weighted_rows(shape.channels, to, [&](const auto& add) {
      for_each(rows, columns, [&](int64_t i, int64_t j) {
        int64_t covered = adaptive_window(i, shape.in_h, shape.out_h).size() *
                          adaptive_window(j, shape.in_w, shape.out_w).size();
        add(dy + ((n * shape.out_h + i) * shape.out_w + j) * shape.channels,
            1 / static_cast<double>(covered));
      });
    });
  });
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::adaptive_avg_pool2d, DeviceType::cpu, dtype,
                  adaptive_avg_pool2d_kernel<T>);
  register_kernel(kernel::adaptive_avg_pool2d_backward, DeviceType::cpu, dtype,
                  adaptive_avg_pool2d_backward_kernel<T>);
}

}  // namespace

void register_adaptive_avg_pool2d() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
