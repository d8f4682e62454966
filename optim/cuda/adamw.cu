#include <cmath>

#include "brim/core/cuda/strided.cuh"
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
  int64_t count;
  FloatBuffer<T> gradient, p, m, v;

  __device__ void update(int64_t i, const optim::AdamWNumbers<T>& n) const {
    const uint64_t step = optim::step_of(scalars);
    const T g = optim::GradientReader<T>::from(scalars)(gradient.read(i)), before = m.read(i);
    const T mean = fma(n.rest1, g - before, before);
    const T square = fma(n.beta2, v.read(i), n.rest2 * g * g);
    m.write(i, mean, step);
    v.write(i, square, step);
    const T direction = mean / (std::sqrt(square) / n.root + n.epsilon);
    p.write(i, fma(-n.step, direction, n.keep * p.read(i)), step);
  }
};

// The step is known on the device alone: each block computes its numbers once. Not in scratch, as
// an update must not allocate.
template <class T>
__global__ void adamw_kernel(AdamW<T> adamw) {
  auto* numbers = shared_memory<optim::AdamWNumbers<T>>();
  if (threadIdx.x == 0) *numbers = optim::AdamWNumbers<T>::from(adamw.scalars, adamw.attributes);
  __syncthreads();
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < adamw.count; i += int64_t{gridDim.x} * blockDim.x)
    adamw.update(i, *numbers);
}

template <class T>
void adamw(const KernelCall& call, const kernel::AdamWAttributes& a) {
  const int64_t count = call.out[0].numel();
  if (count == 0) return;
  launch_kernel("adamw", adamw_kernel<T>,
                {blocks_for(count), kThreads, sizeof(optim::AdamWNumbers<T>)}, call.stream,
                {.scalars = call.in[1].as<double>(),
                 .attributes = a,
                 .count = count,
                 .gradient = FloatBuffer<T>(call.in[0]),
                 .p = FloatBuffer<T>(call.out[0], a.parameter_key),
                 .m = FloatBuffer<T>(call.out[1], a.exp_avg_key),
                 .v = FloatBuffer<T>(call.out[2], a.exp_avg_sq_key)});
}

}  // namespace

void register_adamw() {
  register_kernel(kernel::adamw, DeviceType::cuda, Dtype::float32, adamw<float>);
  register_kernel(kernel::adamw, DeviceType::cuda, Dtype::bfloat16, adamw<float>);
  register_kernel(kernel::adamw, DeviceType::cuda, Dtype::float64, adamw<double>);
}

}  // namespace brim::cuda
