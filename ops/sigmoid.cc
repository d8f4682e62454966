#include "brim/ops/sigmoid.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor sigmoid(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::output, kernel::sigmoid,
                     kernel::sigmoid_backward);
}

}  // namespace brim
