#include "brim/train/cuda/register.h"

namespace brim::cuda {

bool register_train_kernels() {
  static const bool done = [] {
    register_mix();
    return true;
  }();
  return done;
}

}  // namespace brim::cuda
