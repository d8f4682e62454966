#include "brim/ops/hardsigmoid.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor hardsigmoid(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::output, kernel::hardsigmoid,
                     kernel::hardsigmoid_backward);
}

}  // namespace brim
