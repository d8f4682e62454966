#include "brim/ops/sqrt.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor sqrt(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::output, kernel::sqrt, kernel::sqrt_backward);
}

}  // namespace brim
