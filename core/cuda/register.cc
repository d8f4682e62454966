#include "brim/core/cuda/register.h"

namespace brim::cuda {

void register_core_kernels() {
  register_copy();
  register_draw();
}

}  // namespace brim::cuda
