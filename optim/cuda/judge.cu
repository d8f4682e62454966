// A few hundred numbers, added in one order: work for one thread.
#include "brim/base/cuda/launch.cuh"
#include "brim/optim/cuda/register.h"
#include "brim/optim/judge_kernel.h"

namespace brim::cuda {
namespace {

__global__ void judge(const optim::JudgeUpdate update) { update(); }

void judge_update(const KernelCall& call, const NoAttributes&) {
  launch_kernel("judge_update", judge, {1, 1}, call.stream, optim::JudgeUpdate{call});
}

}  // namespace

void register_judge() {
  register_kernel(kernel::judge_update, DeviceType::cuda, Dtype::float64, judge_update);
}

}  // namespace brim::cuda
