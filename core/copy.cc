// Copying, converting and filling: the CPU kernels, and the functions over them.
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "brim/core/half_simd.h"
#include "brim/core/kernels.h"
#include "brim/core/strided_loop.h"

namespace brim {
namespace {

/// Copies and converts `count` elements, which lie `to_step` and `from_step` elements apart.
using CopyRow = void (*)(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step,
                         int64_t count);

template <class To, class From>
void copy_row(std::byte* to_bytes, int64_t to_step, const std::byte* from_bytes, int64_t from_step,
              int64_t count) {
  auto* to = reinterpret_cast<To*>(to_bytes);
  const auto* from = reinterpret_cast<const From*>(from_bytes);
  if (to_step == 1 && from_step == 1) {
    if constexpr (std::is_same_v<To, From>)
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(To));
    else
      convert_row(to, from, count);
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i * to_step] = convert<To>(from[i * from_step]);
}

CopyRow copy_row_of(Dtype to, Dtype from) {
  CopyRow row = nullptr;
  visit_dtype(
      to, [&]<class To>() { visit_dtype(from, [&]<class From>() { row = copy_row<To, From>; }); });
  return row;
}

void copy_kernel(const KernelCall& call, const NoAttributes&) {
  const View &to = call.out[0], &from = call.in[0];
  const CopyRow row = copy_row_of(to.dtype, from.dtype);
  const int64_t to_size = size_of(to.dtype), from_size = size_of(from.dtype);
  std::byte* to_bytes = to.as<std::byte>();
  const std::byte* from_bytes = from.as<std::byte>();
  StridedLoop<2>(to.shape, {to.strides, from.strides})
      .run([=](const Steps<2>& at, int64_t count, const Steps<2>& step) {
        row(to_bytes + at[0] * to_size, step[0], from_bytes + at[1] * from_size, step[1], count);
      });
}

void fill_kernel(const KernelCall& call, const kernel::FillAttributes& attributes) {
  const View& to = call.out[0];
  StridedLoop<1> loop(to.shape, {to.strides});
  visit_dtype(to.dtype, [&]<class T>() {
    T value = convert<T>(attributes.value);
    loop.run([&](const Steps<1>& at, int64_t count, const Steps<1>& step) {
      T* row = to.as<T>() + at[0];
      for (int64_t i = 0; i < count; ++i) row[i * step[0]] = value;
    });
  });
}

template <class T>
void accumulate_kernel(const KernelCall& call, const NoAttributes&) {
  const View &to = call.out[0], &from = call.in[0];
  StridedLoop<2> loop(to.shape, {to.strides, from.strides});
  loop.run([&](const Steps<2>& at, int64_t count, const Steps<2>& step) {
    T* sum = to.as<T>() + at[0];
    const T* term = from.as<T>() + at[1];
    if (step[0] == 1 && step[1] == 1)
      add_row(sum, term, count);
    else
      for (int64_t i = 0; i < count; ++i)
        sum[i * step[0]] = sum_of(sum[i * step[0]], term[i * step[1]]);
  });
}

}  // namespace

void register_core_kernels() {
  for (int i = 0; i < kDtypes; ++i) {
    auto dtype = static_cast<Dtype>(i);
    register_kernel(kernel::copy, DeviceType::cpu, dtype, copy_kernel);
    register_kernel(kernel::fill, DeviceType::cpu, dtype, fill_kernel);
  }
  register_kernel(kernel::accumulate, DeviceType::cpu, Dtype::float32, accumulate_kernel<float>);
  register_kernel(kernel::accumulate, DeviceType::cpu, Dtype::float64, accumulate_kernel<double>);
  register_kernel(kernel::accumulate, DeviceType::cpu, Dtype::float16, accumulate_kernel<Float16>);
  register_kernel(kernel::accumulate, DeviceType::cpu, Dtype::bfloat16,
                  accumulate_kernel<BFloat16>);
}

void copy_into(const Tensor& to, const Tensor& from) {
  expect<ShapeError>(to.shape() == from.shape(), "copy", "expected shape {}, got {}", to.shape(),
                     from.shape());
  launch(kernel::copy, {from}, {to});
}

void accumulate_into(const Tensor& sum, const Tensor& term) {
  expect<ShapeError>(sum.shape() == term.shape(), "accumulate", "expected shape {}, got {}",
                     sum.shape(), term.shape());
  expect<DtypeError>(sum.dtype() == term.dtype(), "accumulate", "expected {}, got {}", sum.dtype(),
                     term.dtype());
  launch(kernel::accumulate, {term}, {sum});
}

void fill(const Tensor& tensor, double value) {
  launch(kernel::fill, {}, {tensor}, {.value = value});
}

Tensor contiguous(const Tensor& tensor) { return tensor.is_contiguous() ? tensor : clone(tensor); }

Tensor clone(const Tensor& tensor) {
  Tensor copy = empty_like(tensor);
  copy_into(copy, tensor);
  return copy;
}

}  // namespace brim
