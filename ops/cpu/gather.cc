#include "brim/ops/gather.h"

#include <algorithm>
#include <type_traits>

#include "brim/core/dtype.h"
#include "brim/core/strided_loop.h"
#include "brim/ops/cpu/check_indices.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/cpu/row_sum.h"

namespace brim::cpu {
namespace {

// Also for half types: elements are moved, not computed with.
template <class T>
void gather_kernel(const KernelCall& call, const kernel::GatherAttributes& attributes) {
  const View &x = call.in[0], &index = call.in[1], &y = call.out[0];
  int axis = attributes.axis;
  const auto* which = index.as<int64_t>();
  check_indices(kernel::gather.name, which, index.numel(), x.shape[axis]);
  int64_t along = x.strides[axis];
  Strides lines = x.strides;  // of the first element of each line
  lines[axis] = 0;
  StridedLoop<2> loop(y.shape, {y.strides, lines});
  loop.run([&](const Steps<2>& at, int64_t count, const Steps<2>& step) {
    const T* from = x.as<T>() + at[1];
    T* to = y.as<T>() + at[0];
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step[1] + which[at[0] + i] * along];
  });
}

template <class T>
double* take_sums(ScratchCursor& cursor, const KernelCall& call, int axis) {
  bool in_double = std::is_same_v<T, float> && call.in[1].shape[axis] > kSumBlock;
  return cursor.take<double>(in_double ? call.out[0].numel() : 0);
}

template <class T>
int64_t backward_scratch(const KernelCall& call, const kernel::GatherAttributes& attributes) {
  ScratchCursor cursor(nullptr);
  take_sums<T>(cursor, call, attributes.axis);
  return cursor.used();
}

// sums += dy at the index. Lines along the axis have no element in common: they run in parallel,
// and the sums within a line go in the order of the index.
template <class T, class Sum>
void scatter_add(const KernelCall& call, int axis, Sum* sums) {
  const View &dy = call.in[0], &index = call.in[1], &dx = call.out[0];
  Shape lines = index.shape;
  int64_t length = lines[axis], from_step = dy.strides[axis], to_step = dx.strides[axis];
  lines[axis] = 1;
  std::fill_n(sums, dx.numel(), Sum(0));
  if (dy.numel() == 0) return;
  StridedLoop<2> loop(lines, {dx.strides, dy.strides});
  loop.run([&](const Steps<2>& at, int64_t count, const Steps<2>& step) {
    for (int64_t k = 0; k < length; ++k) {
      const T* from = dy.as<T>() + at[1] + k * from_step;
      const int64_t* which = index.as<int64_t>() + at[1] + k * from_step;
      for (int64_t i = 0; i < count; ++i)
        sums[at[0] + i * step[0] + which[i * step[1]] * to_step] +=
            static_cast<Sum>(from[i * step[1]]);
    }
  });
}

template <class T>
void gather_backward_kernel(const KernelCall& call, const kernel::GatherAttributes& attributes) {
  T* dx = call.out[0].as<T>();
  if (backward_scratch<T>(call, attributes) == 0) return scatter_add<T>(call, attributes.axis, dx);
  ScratchCursor cursor(call.scratch);
  double* sums = take_sums<T>(cursor, call, attributes.axis);
  scatter_add<T>(call, attributes.axis, sums);
  parallel_for(call.out[0].numel(), 16384, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) dx[i] = static_cast<T>(sums[i]);
  });
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::gather_backward, DeviceType::cpu, dtype, gather_backward_kernel<T>,
                  backward_scratch<T>);
}

}  // namespace

void register_gather() {
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16})
    visit_dtype(dtype, [=]<class T>() {
      register_kernel(kernel::gather, DeviceType::cpu, dtype, gather_kernel<T>);
    });
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
