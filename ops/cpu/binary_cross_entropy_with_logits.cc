#include "brim/ops/binary_cross_entropy_with_logits.h"

#include "brim/ops/cpu/elementwise_loss.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {

void register_binary_cross_entropy_with_logits() { register_loss(kernel::binary_cross_entropy_with_logits); }

}  // namespace brim::cpu
