#include "brim/ops/cuda/register.h"

namespace brim::cuda {

bool register_kernels() {
  static const bool done = [] {
    register_elementwise();
    register_matmul();
    register_linear();
    register_conv2d();
    return true;
  }();
  return done;
}

}  // namespace brim::cuda
