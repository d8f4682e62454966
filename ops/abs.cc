#include "brim/ops/abs.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor abs(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::input, kernel::abs, kernel::abs_backward);
}

}  // namespace brim
