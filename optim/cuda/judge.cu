// One number, or a few hundred that are added in one order: work for one thread.
#include "brim/base/cuda/launch.cuh"
#include "brim/optim/cuda/register.h"
#include "brim/optim/judge_kernel.h"

namespace brim::cuda {
namespace {

template <class Body>
__global__ void judge(const Body body) {
  body();
}

void judge_update(const KernelCall& call, const NoAttributes&) {
  launch_kernel("judge_update", judge<optim::JudgeUpdate>, {1, 1}, call.stream,
                optim::JudgeUpdate{call});
}

void judge_piece(const KernelCall& call, const kernel::JudgePieceAttributes& a) {
  launch_kernel("judge_piece", judge<optim::JudgePiece>, {1, 1}, call.stream,
                optim::JudgePiece{call, a});
}

}  // namespace

void register_judge() {
  register_kernel(kernel::judge_update, DeviceType::cuda, Dtype::float64, judge_update);
  register_kernel(kernel::judge_piece, DeviceType::cuda, Dtype::float64, judge_piece);
}

}  // namespace brim::cuda
