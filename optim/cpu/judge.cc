#include "brim/optim/judge.h"

#include "brim/optim/cpu/register.h"
#include "brim/optim/judge_kernel.h"

namespace brim::cpu {

void register_judge() {
  register_kernel(kernel::judge_update, DeviceType::cpu, Dtype::float64,
                  [](const KernelCall& call, const NoAttributes&) { optim::JudgeUpdate{call}(); });
  register_kernel(kernel::judge_piece, DeviceType::cpu, Dtype::float64,
                  [](const KernelCall& call, const kernel::JudgePieceAttributes& a) {
                    optim::JudgePiece{call, a}();
                  });
}

}  // namespace brim::cpu
