#include "brim/ops/add.h"

#include "brim/ops/cpu/elementwise.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/functors.h"

namespace brim::cpu {

void register_add() { register_broadcast<functor::Add>(kernel::add); }

}  // namespace brim::cpu
