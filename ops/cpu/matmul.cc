#include "brim/ops/matmul.h"

#include "brim/core/strided_loop.h"
#include "brim/ops/cpu/gemm.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

/// The leading axes of the operands and the result, and of all of them together.
struct Batch {
  Shape all;
  Strides a, b, y;  // in matrices, 0 along axes that broadcast

  explicit Batch(const KernelCall& call)
      : all(broadcast_shapes(
            broadcast_shapes(leading(call.in[0].shape), leading(call.in[1].shape), "matmul"),
            leading(call.out[0].shape), "matmul")),
        a(steps(call.in[0].shape)),
        b(steps(call.in[1].shape)),
        y(steps(call.out[0].shape)) {}

  struct Place {
    int64_t a = 0, b = 0, y = 0;
    bool first = true;  // no product went to this y before
  };
  Place at(int64_t index) const {
    Place place;
    for (int axis = all.size() - 1; axis >= 0; --axis) {
      int64_t i = index % all[axis];
      index /= all[axis];
      place.a += i * a[axis];
      place.b += i * b[axis];
      place.y += i * y[axis];
      if (y[axis] == 0 && i > 0) place.first = false;
    }
    return place;
  }

 private:
  static Shape leading(const Shape& shape) {
    return Shape(std::span<const int64_t>(shape.begin(), shape.end() - 2));
  }
  Strides steps(const Shape& shape) const {
    return broadcast_strides(leading(shape), contiguous_strides(leading(shape)), all);
  }
};

struct Sizes {
  int64_t m, n, k;
};
Sizes sizes_of(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  const Shape &a = call.in[0].shape, &y = call.out[0].shape;
  return {y[y.size() - 2], y.back(), attributes.transpose_a ? a[a.size() - 2] : a.back()};
}

template <class T>
int64_t matmul_scratch(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  auto [m, n, k] = sizes_of(call, attributes);
  return gemm_scratch<T>(m, n, k);
}

template <class T>
void matmul_kernel(const KernelCall& call, const kernel::MatmulAttributes& attributes) {
  auto [m, n, k] = sizes_of(call, attributes);
  const T *a = call.in[0].as<T>(), *b = call.in[1].as<T>();
  T* y = call.out[0].as<T>();
  Batch batch(call);
  int64_t count = numel(batch.all);
  if (count == 0) std::fill_n(y, call.out[0].numel(), T(0));
  for (int64_t i = 0; i < count; ++i) {
    auto place = batch.at(i);
    DenseRows<T> left(a + place.a * m * k, attributes.transpose_a ? m : k);
    DenseRows<T> right(b + place.b * k * n, attributes.transpose_b ? k : n);
    gemm<T, T>({.m = m,
                .n = n,
                .k = k,
                .a = {&left, attributes.transpose_a},
                .b = {&right, attributes.transpose_b},
                .c = y + place.y * m * n,
                .c_stride = n,
                .bias = call.in[2].present ? call.in[2].as<T>() : nullptr,
                .accumulate = !place.first},
               call.scratch);
  }
}

}  // namespace

void register_matmul() {
  register_kernel(kernel::matmul, DeviceType::cpu, Dtype::float32, matmul_kernel<float>,
                  matmul_scratch<float>);
  register_kernel(kernel::matmul, DeviceType::cpu, Dtype::float64, matmul_kernel<double>,
                  matmul_scratch<double>);
}

}  // namespace brim::cpu
