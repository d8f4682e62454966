#include "brim/ops/gelu.h"

#include "brim/ops/unary.h"

namespace brim {

Tensor gelu(Tensor x, GeluOptions options, Where where) {
  bool tanh = options.approximate == GeluApproximation::tanh;
  return apply_unary(std::move(x), where, UnarySaves::input, kernel::gelu, kernel::gelu_backward,
                     {tanh}, {tanh});
}

}  // namespace brim
