#include "brim/train/cpu/register.h"

namespace brim::cpu {

bool register_train_kernels() {
  static const bool done = [] {
    register_mix();
    return true;
  }();
  return done;
}

}  // namespace brim::cpu
