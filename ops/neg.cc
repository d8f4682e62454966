#include "brim/ops/neg.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor neg(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::nothing, kernel::neg, kernel::neg);
}

}  // namespace brim
