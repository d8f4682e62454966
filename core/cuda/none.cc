// The build without the CUDA toolkit: nothing to enter.
#include "brim/core/cuda/register.h"

namespace brim::cuda {

void register_core_kernels() {}

}  // namespace brim::cuda
