// Arithmetic that reads like arithmetic: + - * / and comparisons of tensors, and of a tensor and a
// number on either side: `x - 2 * y`, `-x`, `labels == 3`. They are the ops add, sub, mul, div,
// neg, eq, ne, lt, le, gt and ge, whose headers say shapes, dtypes and errors; a number takes the
// dtype and the device of the tensor.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// A side of an operator, which a tensor or a number becomes by itself, with the line where that
/// stands.
class Operand {
 public:
  Operand(Tensor tensor, Where where = Where::current())
      : tensor_(std::move(tensor)), where_(where) {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T number, Where where = Where::current())
      : number_(static_cast<double>(number)), where_(where) {}

  /// Dtype and device of a tensor, for the number beside it; nothing for a number.
  std::optional<TensorOptions> options() const;
  /// The tensor, or the number as one of no axes.
  Tensor take(const TensorOptions& of_number) &&;
  const Where& where() const { return where_; }

 private:
  Tensor tensor_;
  std::optional<double> number_;
  Where where_;
};

Tensor operator+(Operand a, Operand b);
Tensor operator-(Operand a, Operand b);
Tensor operator*(Operand a, Operand b);
Tensor operator/(Operand a, Operand b);
Tensor operator-(Operand x);

Tensor operator==(Operand a, Operand b);
Tensor operator!=(Operand a, Operand b);
Tensor operator<(Operand a, Operand b);
Tensor operator<=(Operand a, Operand b);
Tensor operator>(Operand a, Operand b);
Tensor operator>=(Operand a, Operand b);

namespace detail {
template <class T>
concept NoOperand = !std::is_convertible_v<T, Operand>;
template <class T>
inline constexpr bool kIsOperand = std::is_convertible_v<T, Operand>;
}  // namespace detail

// Compilers would list all operators that there are.
#define BRIM_REFUSE_OTHERS(op)                                                            \
  template <detail::NoOperand T>                                                          \
  Tensor operator op(const Tensor&, const T&) {                                           \
    static_assert(detail::kIsOperand<T>, "a Tensor goes with a Tensor or with a number"); \
    return {};                                                                            \
  }                                                                                       \
  template <detail::NoOperand T>                                                          \
  Tensor operator op(const T&, const Tensor&) {                                           \
    static_assert(detail::kIsOperand<T>, "a Tensor goes with a Tensor or with a number"); \
    return {};                                                                            \
  }
BRIM_REFUSE_OTHERS(+)
BRIM_REFUSE_OTHERS(-)
BRIM_REFUSE_OTHERS(*)
BRIM_REFUSE_OTHERS(/)
#undef BRIM_REFUSE_OTHERS

}  // namespace brim
