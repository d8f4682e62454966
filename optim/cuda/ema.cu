#include <cmath>

#include "brim/core/cuda/strided.cuh"
#include "brim/core/cuda/vector.cuh"
#include "brim/optim/cuda/register.h"
#include "brim/optim/ema.h"

namespace brim::cuda {
namespace {

/// A decay of 0 gives the value itself, whatever the average was, and one of 1 keeps the average,
/// whatever the value is.
template <class T>
struct Move {
  const double* rest;

  struct Element {
    T rest;
    __device__ void next() const {}
    __device__ T operator()(T average, T value) const {
      if (rest == 0) return average;
      return rest == 1 ? value : fma(rest, value - average, average);
    }
  };
  __device__ Element from(int64_t) const { return {static_cast<T>(*rest)}; }
};

template <class T>
struct Swap {
  T *a, *b;
  __device__ void operator()(const Offsets<1>& at) const {
    const T kept = a[at.of[0]];
    a[at.of[0]] = b[at.of[0]];
    b[at.of[0]] = kept;
  }
};

template <class T>
void ema(const KernelCall& call, const NoAttributes&) {
  T *average = call.out[0].as<T>(), *value = call.in[0].as<T>();
  map_from(call, call.out[0].numel(), Move<T>{call.in[1].as<double>()}, "ema", average, average,
           value);
}

template <class T>
void ema_swap(const KernelCall& call, const NoAttributes&) {
  for_each_element(call, call.out[0].numel(), Swap<T>{call.out[0].as<T>(), call.out[1].as<T>()},
                   "ema_swap");
}

template <class T>
void register_for() {
  register_kernel(kernel::ema, DeviceType::cuda, dtype_of<T>, ema<T>);
  register_kernel(kernel::ema_swap, DeviceType::cuda, dtype_of<T>, ema_swap<T>);
}

}  // namespace

void register_ema() {
  register_for<float>();
  register_for<double>();
}

}  // namespace brim::cuda
