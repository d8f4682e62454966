#include "brim/ops/kl_div.h"

#include "brim/ops/cpu/elementwise_loss.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {

void register_kl_div() { register_loss(kernel::kl_div); }

}  // namespace brim::cpu
