#include "brim/optim/cuda/register.h"

namespace brim::cuda {

bool register_optimizer_kernels() {
  static const bool done = [] {
    register_adamw();
    register_ema();
    register_judge();
    register_sgd();
    register_square_sum();
    register_step_scalars();
    return true;
  }();
  return done;
}

}  // namespace brim::cuda
