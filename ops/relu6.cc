#include "brim/ops/relu6.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor relu6(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::output, kernel::relu6,
                     kernel::relu6_backward);
}

}  // namespace brim
