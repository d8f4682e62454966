#include "brim/ops/operators.h"

#include "brim/ops/add.h"
#include "brim/ops/comparison.h"
#include "brim/ops/div.h"
#include "brim/ops/mul.h"
#include "brim/ops/neg.h"
#include "brim/ops/sub.h"

namespace brim {
namespace {

using BinaryOp = Tensor (*)(Tensor, Tensor, Where);

Tensor apply(BinaryOp op, Operand a, Operand b) {
  const TensorOptions of_number =
      a.options() ? *a.options() : b.options().value_or(TensorOptions());
  const Where where = a.where();
  return op(std::move(a).take(of_number), std::move(b).take(of_number), where);
}

}  // namespace

std::optional<TensorOptions> Operand::options() const {
  if (number_) return {};
  if (!tensor_.defined()) return TensorOptions();  // the op says so
  return TensorOptions{.dtype = tensor_.dtype(), .device = tensor_.device()};
}

Tensor Operand::take(const TensorOptions& of_number) && {
  return number_ ? full({}, *number_, of_number) : std::move(tensor_);
}

Tensor operator+(Operand a, Operand b) { return apply(add, std::move(a), std::move(b)); }
Tensor operator-(Operand a, Operand b) { return apply(sub, std::move(a), std::move(b)); }
Tensor operator*(Operand a, Operand b) { return apply(mul, std::move(a), std::move(b)); }
Tensor operator/(Operand a, Operand b) { return apply(div, std::move(a), std::move(b)); }

Tensor operator-(Operand x) {
  const Where where = x.where();
  return neg(std::move(x).take({}), where);
}

Tensor operator==(Operand a, Operand b) { return apply(eq, std::move(a), std::move(b)); }
Tensor operator!=(Operand a, Operand b) { return apply(ne, std::move(a), std::move(b)); }
Tensor operator<(Operand a, Operand b) { return apply(lt, std::move(a), std::move(b)); }
Tensor operator<=(Operand a, Operand b) { return apply(le, std::move(a), std::move(b)); }
Tensor operator>(Operand a, Operand b) { return apply(gt, std::move(a), std::move(b)); }
Tensor operator>=(Operand a, Operand b) { return apply(ge, std::move(a), std::move(b)); }

}  // namespace brim
