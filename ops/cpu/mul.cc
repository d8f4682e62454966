#include "brim/ops/mul.h"

#include "brim/ops/cpu/elementwise.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/functors.h"

namespace brim::cpu {

void register_mul() { register_broadcast<functor::Mul>(kernel::mul); }

}  // namespace brim::cpu
