#include "brim/ops/relu.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor relu(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::output, kernel::relu, kernel::relu_backward);
}

}  // namespace brim
