#include "brim/optim/judge.h"

#include "brim/optim/cpu/register.h"
#include "brim/optim/judge_kernel.h"

namespace brim::cpu {

void register_judge() {
  register_kernel(kernel::judge_update, DeviceType::cpu, Dtype::float64,
                  [](const KernelCall& call, const NoAttributes&) { optim::JudgeUpdate{call}(); });
}

}  // namespace brim::cpu
