#include "brim/ops/where.h"

#include <type_traits>

#include "brim/core/strided_loop.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

template <int64_t kStep>
using Step = std::integral_constant<int64_t, kStep>;

/// A row. Steps that are known when this is compiled make vector code: both tensors in full, or,
/// for gradients, one of them and a 0.
template <class T>
void row(T* y, const bool* condition, const T* a, const T* b, int64_t count, const Steps<4>& step) {
  auto choose = [=](auto of_condition, auto of_a, auto of_b) {
    for (int64_t i = 0; i < count; ++i)
      y[i] = condition[i * of_condition] ? a[i * of_a] : b[i * of_b];
  };
  if (step == Steps<4>{1, 1, 1, 1})
    choose(Step<1>(), Step<1>(), Step<1>());
  else if (step == Steps<4>{1, 1, 1, 0})
    choose(Step<1>(), Step<1>(), Step<0>());
  else if (step == Steps<4>{1, 1, 0, 1})
    choose(Step<1>(), Step<0>(), Step<1>());
  else
    choose(step[1], step[2], step[3]);
}

template <class T>
void choose(const KernelCall& call, const NoAttributes&) {
  static constexpr T kZero{};
  const View& y = call.out[0];
  auto data = [](const View& view) { return view.present ? view.as<T>() : &kZero; };
  auto strides = [&](const View& view) {
    return view.present ? broadcast_strides(view.shape, view.strides, y.shape)
                        : Strides(Dims::filled(y.shape.size(), 0));
  };
  const bool* condition = call.in[0].as<bool>();
  const T *a = data(call.in[1]), *b = data(call.in[2]);
  StridedLoop<4> loop(y.shape,
                      {y.strides, strides(call.in[0]), strides(call.in[1]), strides(call.in[2])});
  loop.run([&](const Steps<4>& at, int64_t count, const Steps<4>& step) {
    row(y.as<T>() + at[0], condition + at[1], a + at[2], b + at[3], count, step);
  });
}

}  // namespace

void register_where() {
  // Halves are moved as they are.
  register_kernel(kernel::where, DeviceType::cpu, Dtype::float32, choose<float>);
  register_kernel(kernel::where, DeviceType::cpu, Dtype::float64, choose<double>);
  register_kernel(kernel::where, DeviceType::cpu, Dtype::float16, choose<Float16>);
  register_kernel(kernel::where, DeviceType::cpu, Dtype::bfloat16, choose<BFloat16>);
}

}  // namespace brim::cpu
