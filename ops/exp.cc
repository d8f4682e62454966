#include "brim/ops/exp.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor exp(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::output, kernel::exp, kernel::exp_backward);
}

}  // namespace brim
