// The op behind every elementwise function of one tensor, made from two functors: y = f(x), and
// dx = g(dy, what is saved). For authors of ops: `relu` is a call of `apply_unary` and nothing
// else. Functions of two tensors that broadcast use ops/binary.h; one that needs shapes of its own,
// scratch or two saved tensors is a class of its own (docs/adding_an_op.md).
#pragma once

#include <memory>
#include <utility>

#include "brim/ops/elementwise_kernels.h"
#include "brim/ops/op.h"
#include "brim/ops/reuse.h"

namespace brim {

/// What backward reads beside dy. Where the derivative can be had from the output, save that: the
/// op that follows often keeps the same tensor, and the input need not stay.
enum class UnarySaves { nothing, input, output };

/// F is the functor of forward, G that of backward: g(dy), or g(dy, saved).
template <class F, class G>
class Unary final : public autograd::Op {
 public:
  Unary(UnarySaves saves, const Kernel<F>& forward, const Kernel<G>& backward, F f, G g)
      : saves_(saves), forward_(forward), backward_(backward), f_(f), g_(g) {}
  const char* name() const override { return forward_.name; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    require_floating(name(), in[0]);
    Tensor x = contiguous(in[0]), y = output_over(in, context, x);
    launch(forward_, {x}, {y}, f_);
    return {y};
  }

  std::vector<int> overwrites() const override { return {0}; }
  bool is_one_pass() const override { return true; }
  bool is_rowwise() const override { return true; }

  autograd::Saves saves(const autograd::Needs&) const override {
    if (saves_ == UnarySaves::input) return {.inputs = {0}};
    if (saves_ == UnarySaves::output) return {.outputs = {0}};
    return {};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad(), dx = reuse_or_empty(dy);
    if (saves_ == UnarySaves::nothing)
      launch(backward_, {dy}, {dx}, g_);
    else if (saves_ == UnarySaves::input)
      launch(backward_, {dy, contiguous(call.input(0))}, {dx}, g_);
    else
      launch(backward_, {dy, call.output(0)}, {dx}, g_);
    return {dx};
  }

 private:
  UnarySaves saves_;
  Kernel<F> forward_;
  Kernel<G> backward_;
  F f_;
  G g_;
};

/// y = f(x), of x's shape and dtype, recorded on the tape; its errors carry the name of the kernel
/// `forward`. Throws `DtypeError` unless x is floating. dx is written over dy where nobody else
/// holds dy.
template <class F, class G>
Tensor apply_unary(Tensor x, const Where& where, UnarySaves saves, const Kernel<F>& forward,
                   const Kernel<G>& backward, const std::type_identity_t<F>& f = {},
                   const std::type_identity_t<G>& g = {}) {
  return autograd::apply_one(std::make_shared<Unary<F, G>>(saves, forward, backward, f, g),
                             {std::move(x)}, where);
}

}  // namespace brim
