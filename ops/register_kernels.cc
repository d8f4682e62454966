#include "brim/ops/register_kernels.h"

#include "brim/ops/cpu/register.h"
#include "brim/ops/cuda/register.h"

namespace brim {

bool register_kernels() { return cpu::register_kernels() && cuda::register_kernels(); }

}  // namespace brim
