#include "brim/ops/tanh.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor tanh(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::output, kernel::tanh, kernel::tanh_backward);
}

}  // namespace brim
