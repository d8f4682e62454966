#include "brim/optim/step_scalars.h"

#include <algorithm>

#include "brim/optim/cpu/register.h"

namespace brim::cpu {

void register_step_scalars() {
  register_kernel(kernel::step_scalars, DeviceType::cpu, Dtype::float64,
                  [](const KernelCall& call, const kernel::StepScalarsAttributes& a) {
                    std::ranges::copy(a.values, call.out[0].as<double>());
                  });
}

}  // namespace brim::cpu
