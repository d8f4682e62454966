// The build without the CUDA toolkit: nothing to enter.
#include "brim/ops/cuda/convolution.h"
#include "brim/ops/cuda/register.h"

namespace brim::cuda {

bool register_kernels() { return true; }

std::string engine_kind(Device) { return ""; }

}  // namespace brim::cuda
