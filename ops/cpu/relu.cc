#include "brim/ops/relu.h"

#include "brim/ops/cpu/elementwise.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/functors.h"

namespace brim::cpu {

void register_relu() {
  register_unary<functor::Relu>(kernel::relu);
  register_binary<functor::ReluBackward>(kernel::relu_backward);
}

}  // namespace brim::cpu
