// The build without the CUDA toolkit: nothing to enter.
#include "brim/ops/cuda/register.h"

namespace brim::cuda {

bool register_kernels() { return true; }

}  // namespace brim::cuda
