#include "brim/core/cuda/strided.cuh"
#include "brim/optim/cuda/register.h"
#include "brim/optim/step_scalars.h"

namespace brim::cuda {
namespace {

struct Write {
  kernel::StepScalarsAttributes a;
  double* to;
  __device__ void operator()(const Offsets<1>& at) const {
    to[at.of[0]] = a.values[static_cast<size_t>(at.of[0])];
  }
};

void step_scalars(const KernelCall& call, const kernel::StepScalarsAttributes& a) {
  for_each_element(call, optim::StepScalars::kCount, Write{a, call.out[0].as<double>()},
                   "step_scalars");
}

}  // namespace

void register_step_scalars() {
  register_kernel(kernel::step_scalars, DeviceType::cuda, Dtype::float64, step_scalars);
}

}  // namespace brim::cuda
