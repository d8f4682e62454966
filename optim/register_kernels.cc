#include "brim/optim/register_kernels.h"

#include "brim/optim/cpu/register.h"

namespace brim::optim {

bool register_kernels() { return cpu::register_optimizer_kernels(); }

}  // namespace brim::optim
