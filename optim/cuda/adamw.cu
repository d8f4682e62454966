#include <cmath>

#include "brim/core/cuda/batch.cuh"
#include "brim/optim/adamw.h"
#include "brim/optim/adamw_numbers.h"
#include "brim/optim/cuda/float_buffer.cuh"
#include "brim/optim/cuda/register.h"
#include "brim/optim/gradient_reader.h"

namespace brim::cuda {
namespace {

template <class T>
struct AdamW {
  const double* scalars;
  kernel::AdamWAttributes attributes;
  FloatBuffer<T> gradient, p, m, v;

  struct Common {
    optim::AdamWNumbers<T> numbers;
    optim::GradientReader<T> read;
    uint64_t step;
    bool applied;
  };
  // The step is known on the device alone. Not in scratch, as an update must not allocate.
  __device__ Common common() const {
    return {optim::AdamWNumbers<T>::from(scalars, attributes),
            optim::GradientReader<T>::from(scalars), optim::step_of(scalars),
            optim::is_applied(scalars)};
  }

  __device__ void operator()(int64_t i, const Common& c) const {
    if (!c.applied) return;
    const optim::AdamWNumbers<T>& n = c.numbers;
    const T g = c.read(gradient.read(i)), before = m.read(i);
    const T mean = fma(n.rest1, g - before, before);
    const T square = fma(n.beta2, v.read(i), n.rest2 * g * g);
    m.write(i, mean, c.step);
    v.write(i, square, c.step);
    const T direction = mean / (std::sqrt(square) / n.root + n.epsilon);
    p.write(i, fma(-n.step, direction, n.keep * p.read(i)), c.step);
  }
};

template <class T>
void adamw(const KernelCall& call, const kernel::AdamWAttributes& a) {
  const AdamW<T> body{.scalars = call.in[1].as<double>(),
                      .attributes = a,
                      .gradient = FloatBuffer<T>(call.in[0]),
                      .p = FloatBuffer<T>(call.out[0], a.parameter_key),
                      .m = FloatBuffer<T>(call.out[1], a.exp_avg_key),
                      .v = FloatBuffer<T>(call.out[2], a.exp_avg_sq_key)};
  for_each_element_of_batch(call, call.out[0].numel(), body, "adamw");
}

}  // namespace

void register_adamw() {
  register_kernel(kernel::adamw, DeviceType::cuda, Dtype::float32, adamw<float>);
  register_kernel(kernel::adamw, DeviceType::cuda, Dtype::bfloat16, adamw<float>);
  register_kernel(kernel::adamw, DeviceType::cuda, Dtype::float64, adamw<double>);
}

}  // namespace brim::cuda
