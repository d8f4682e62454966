#include "brim/shrink/cuda/register.h"

namespace brim::cuda {

bool register_shrink_kernels() {
  static const bool done = [] {
    register_apply_mask();
    return true;
  }();
  return done;
}

}  // namespace brim::cuda
