#include "brim/shrink/cpu/register.h"

namespace brim::cpu {

bool register_shrink_kernels() {
  static const bool done = [] {
    register_apply_mask();
    return true;
  }();
  return done;
}

}  // namespace brim::cpu
