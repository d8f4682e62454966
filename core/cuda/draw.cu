// Filling with numbers that are functions of their place, with the bits that the CPU draws.
#include "brim/base/random.h"
#include "brim/core/cuda/register.h"
#include "brim/core/cuda/strided.cuh"
#include "brim/core/kernels.h"

namespace brim::cuda {
namespace {

struct Count {
  __device__ int64_t operator()(int64_t i) const { return i; }
};

struct Uniform {
  kernel::UniformAttributes a;
  __device__ double operator()(int64_t i) const {
    const double middle = (a.low + a.high) / 2, half = (a.high - a.low) / 2;
    double draw = 2.0 * random_uniform(a.key, 0, static_cast<uint64_t>(i)) - 1.0;
    double value = middle + half * draw;
    return value < a.low ? a.low : value;  // not below it by a rounding
  }
};

struct Normal {
  kernel::NormalAttributes a;
  __device__ double operator()(int64_t i) const {
    return a.deviation * random_normal(a.key, 0, static_cast<uint64_t>(i));
  }
};

template <class T, class Value>
struct GenerateElement {
  T* to;
  Value value;
  __device__ void operator()(const Offsets<1>& at) const {
    to[at.of[0]] = convert<T>(value(at.of[0]));
  }
};

// Element i of a contiguous buffer becomes value(i).
template <class Value>
void generate(const KernelCall& call, const Value& value, const char* kernel) {
  const View& to = call.out[0];
  visit_dtype(to.dtype, [&]<class T>() {
    for_each_element(call, to.numel(), GenerateElement<T, Value>{to.as<T>(), value}, kernel);
  });
}

void arange_kernel(const KernelCall& call, const NoAttributes&) {
  generate(call, Count{}, "arange");
}

void uniform_kernel(const KernelCall& call, const kernel::UniformAttributes& attributes) {
  generate(call, Uniform{attributes}, "uniform");
}

void normal_kernel(const KernelCall& call, const kernel::NormalAttributes& attributes) {
  generate(call, Normal{attributes}, "normal");
}

}  // namespace

void register_draw() {
  for (int i = 0; i < kDtypes; ++i) {
    auto dtype = static_cast<Dtype>(i);
    register_kernel(kernel::arange, DeviceType::cuda, dtype, arange_kernel);
    register_kernel(kernel::uniform, DeviceType::cuda, dtype, uniform_kernel);
    register_kernel(kernel::normal, DeviceType::cuda, dtype, normal_kernel);
  }
}

}  // namespace brim::cuda
