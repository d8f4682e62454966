#include "brim/ops/register_kernels.h"

#include "brim/ops/cpu/register.h"

namespace brim {

bool register_kernels() { return cpu::register_kernels(); }

}  // namespace brim
