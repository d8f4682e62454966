#include <cmath>

#include "brim/core/cuda/batch.cuh"
#include "brim/optim/cuda/float_buffer.cuh"
#include "brim/optim/cuda/register.h"
#include "brim/optim/gradient_reader.h"
#include "brim/optim/sgd.h"

namespace brim::cuda {
namespace {

/// The formula of optim/cpu/sgd.cc, for one element.
template <class T>
struct Sgd {
  const double* scalars;
  double rate_factor;
  T momentum, weight_decay;
  bool has_momentum, nesterov;
  FloatBuffer<T> gradient, p, v;

  struct Common {
    optim::GradientReader<T> read;
    T rate;
    uint64_t step;
    bool applied;
  };
  __device__ Common common() const {
    return {optim::GradientReader<T>::from(scalars),
            static_cast<T>(scalars[optim::StepScalars::kRate] * rate_factor),
            optim::step_of(scalars), optim::is_applied(scalars)};
  }

  __device__ void operator()(int64_t i, const Common& c) const {
    if (!c.applied) return;
    const T parameter = p.read(i);
    T direction = fma(weight_decay, parameter, c.read(gradient.read(i)));
    if (has_momentum) {
      const T velocity = fma(momentum, v.read(i), direction);
      v.write(i, velocity, c.step);
      direction = nesterov ? fma(momentum, velocity, direction) : velocity;
    }
    p.write(i, fma(-c.rate, direction, parameter), c.step);
  }
};

template <class T>
void sgd(const KernelCall& call, const kernel::SgdAttributes& a) {
  const Sgd<T> body{.scalars = call.in[1].as<double>(),
                    .rate_factor = a.rate_factor,
                    .momentum = static_cast<T>(a.momentum),
                    .weight_decay = static_cast<T>(a.weight_decay),
                    .has_momentum = call.out[1].present,
                    .nesterov = a.nesterov,
                    .gradient = FloatBuffer<T>(call.in[0]),
                    .p = FloatBuffer<T>(call.out[0], a.parameter_key),
                    .v = FloatBuffer<T>(call.out[1], a.momentum_key)};
  for_each_element_of_batch(call, call.out[0].numel(), body, "sgd");
}

}  // namespace

void register_sgd() {
  register_kernel(kernel::sgd, DeviceType::cuda, Dtype::float32, sgd<float>);
  register_kernel(kernel::sgd, DeviceType::cuda, Dtype::bfloat16, sgd<float>);
  register_kernel(kernel::sgd, DeviceType::cuda, Dtype::float64, sgd<double>);
}

}  // namespace brim::cuda
