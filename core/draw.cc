// Filling with numbers that are functions of their place: the CPU kernels, and the functions over
// them.
#include <algorithm>

#include "brim/base/parallel.h"
#include "brim/core/kernels.h"

namespace brim {
namespace {

constexpr int64_t kGrain = 4096;  // draws that repay a second thread

// Element i, in row-major order, becomes value(i), which must be pure.
template <class Value>
void generate(const View& to, const Value& value) {
  visit_dtype(to.dtype, [&]<class T>() {
    T* values = to.as<T>();
    parallel_for(to.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[i] = convert<T>(value(i));
    });
  });
}

void arange_kernel(const KernelCall& call, const NoAttributes&) {
  generate(call.out[0], [](int64_t i) { return i; });
}

void uniform_kernel(const KernelCall& call, const kernel::UniformAttributes& a) {
  const double middle = (a.low + a.high) / 2, half = (a.high - a.low) / 2;
  generate(call.out[0], [&](int64_t i) {
    double draw = 2.0 * random_uniform(a.key, 0, static_cast<uint64_t>(i)) - 1.0;
    return std::max(a.low, middle + half * draw);  // not below it by a rounding
  });
}

void normal_kernel(const KernelCall& call, const kernel::NormalAttributes& a) {
  generate(call.out[0], [&](int64_t i) {
    return a.deviation * random_normal(a.key, 0, static_cast<uint64_t>(i));
  });
}

void require_contiguous(const char* name, const Tensor& tensor) {
  expect<ShapeError>(tensor.is_contiguous(), name, "expected a contiguous tensor, got strides {}",
                     to_string(tensor.strides()));
}

}  // namespace

void register_draw_kernels() {
  for (int i = 0; i < kDtypes; ++i) {
    auto dtype = static_cast<Dtype>(i);
    register_kernel(kernel::arange, DeviceType::cpu, dtype, arange_kernel);
    register_kernel(kernel::uniform, DeviceType::cpu, dtype, uniform_kernel);
    register_kernel(kernel::normal, DeviceType::cpu, dtype, normal_kernel);
  }
}

void fill_uniform(const Tensor& tensor, double low, double high, RandomKey key) {
  require_contiguous("fill_uniform", tensor);
  launch(kernel::uniform, {}, {tensor}, {.low = low, .high = high, .key = key});
}

void fill_normal(const Tensor& tensor, double deviation, RandomKey key) {
  require_contiguous("fill_normal", tensor);
  launch(kernel::normal, {}, {tensor}, {.deviation = deviation, .key = key});
}

}  // namespace brim
