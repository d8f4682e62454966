#include "brim/ops/mse_loss.h"

#include "brim/ops/cpu/elementwise_loss.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {

void register_mse_loss() { register_loss(kernel::mse_loss); }

}  // namespace brim::cpu
