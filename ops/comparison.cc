#include "brim/ops/comparison.h"

#include "brim/ops/comparison_kernels.h"
#include "brim/ops/op.h"

namespace brim {
namespace {

/// The kernel for (a, b), or for (b, a) where that is the same.
template <class F>
class Comparison final : public autograd::Op {
 public:
  Comparison(const char* name, const Kernel<F>& kernel, bool swapped)
      : name_(name), kernel_(kernel), swapped_(swapped) {}
  const char* name() const override { return name_; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    const Tensor &a = in[0], &b = in[1];
    require_same_kind(name_, a, b);
    expect<DtypeError>(a.dtype() != Dtype::boolean && a.dtype() != Dtype::int8, name_,
                       "expected a floating dtype, int64, int32 or uint8, got {}", a.dtype());
    Tensor y = empty(broadcast_shapes(a.shape(), b.shape(), name_),
                     {.dtype = Dtype::boolean, .device = a.device()});
    launch(kernel_, a.dtype(), {swapped_ ? b : a, swapped_ ? a : b}, {y});
    return {y};
  }

  Tensors backward(autograd::BackwardCall&) const override {
    raise<InternalError>(name_, "has no gradient");
  }
  bool is_differentiable() const override { return false; }

 private:
  const char* name_;
  Kernel<F> kernel_;
  bool swapped_;
};

enum class Order { as_given, swapped };

template <class F>
Tensor apply(const char* name, const Kernel<F>& kernel, Order order, Tensor a, Tensor b,
             const Where& where) {
  return autograd::apply_one(std::make_shared<Comparison<F>>(name, kernel, order == Order::swapped),
                             {std::move(a), std::move(b)}, where);
}

}  // namespace

Tensor eq(Tensor a, Tensor b, Where where) {
  return apply("eq", kernel::eq, Order::as_given, std::move(a), std::move(b), where);
}

Tensor ne(Tensor a, Tensor b, Where where) {
  return apply("ne", kernel::ne, Order::as_given, std::move(a), std::move(b), where);
}

Tensor lt(Tensor a, Tensor b, Where where) {
  return apply("lt", kernel::lt, Order::as_given, std::move(a), std::move(b), where);
}

Tensor le(Tensor a, Tensor b, Where where) {
  return apply("le", kernel::le, Order::as_given, std::move(a), std::move(b), where);
}

Tensor gt(Tensor a, Tensor b, Where where) {
  return apply("gt", kernel::lt, Order::swapped, std::move(a), std::move(b), where);
}

Tensor ge(Tensor a, Tensor b, Where where) {
  return apply("ge", kernel::le, Order::swapped, std::move(a), std::move(b), where);
}

}  // namespace brim
