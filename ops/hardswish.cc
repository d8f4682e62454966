#include "brim/ops/hardswish.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor hardswish(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::input, kernel::hardswish,
                     kernel::hardswish_backward);
}

}  // namespace brim
