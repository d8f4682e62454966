#include "brim/ops/log.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor log(Tensor x, Where where) {
  return apply_unary(std::move(x), where, UnarySaves::input, kernel::log, kernel::log_backward);
}

}  // namespace brim
