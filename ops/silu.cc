#include "brim/ops/silu.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor silu(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::input, kernel::silu, kernel::silu_backward);
}

}  // namespace brim
