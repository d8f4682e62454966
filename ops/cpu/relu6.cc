#include "brim/ops/relu6.h"

#include "brim/ops/cpu/elementwise.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/functors.h"

namespace brim::cpu {

void register_relu6() {
  register_unary<functor::Relu6>(kernel::relu6);
  register_binary<functor::Relu6Backward>(kernel::relu6_backward);
}

}  // namespace brim::cpu
