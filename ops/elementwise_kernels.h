// The elementwise kernels, each named once, with the functor that is its formula and its attributes
// (functors.h, activation_functors.h). A device makes kernels of the functors in its own way and
// registers all of them with one call, so that every device has the same ones: cpu/elementwise.cc
// does so. For authors of ops and devices. What is more than one formula per element registers
// itself (cpu/register.h). Light, so that any device's compiler can read it.
#pragma once

#include "brim/core/kernel.h"
#include "brim/ops/activation_functors.h"
#include "brim/ops/functors.h"

namespace brim {

namespace kernel {

// in: x; out: y. Contiguous. `neg` and `scale` are their own backward: in dy,
// out dx, which may be dy.
inline constexpr Kernel<functor::Relu> relu{.name = "relu", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Relu6> relu6{.name = "relu6", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Hardsigmoid> hardsigmoid{.name = "hardsigmoid",
                                                          .by_rows = kElementwise1};
inline constexpr Kernel<functor::Hardswish> hardswish{.name = "hardswish",
                                                      .by_rows = kElementwise1};
inline constexpr Kernel<functor::LeakyRelu> leaky_relu{.name = "leaky_relu",
                                                       .by_rows = kElementwise1};
inline constexpr Kernel<functor::Sigmoid> sigmoid{.name = "sigmoid", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Tanh> tanh{.name = "tanh", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Gelu> gelu{.name = "gelu", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Silu> silu{.name = "silu", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Neg> neg{.name = "neg", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Scale> scale{.name = "scale", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Abs> abs{.name = "abs", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Exp> exp{.name = "exp", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Log> log{.name = "log", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Sqrt> sqrt{.name = "sqrt", .by_rows = kElementwise1};
inline constexpr Kernel<functor::Clamp> clamp{.name = "clamp", .by_rows = kElementwise1};

// in: dy, and x or y as the functor says; out: dx, which may be dy. Contiguous.
inline constexpr Kernel<functor::ReluBackward> relu_backward{.name = "relu_backward",
                                                             .by_rows = kElementwise2};
inline constexpr Kernel<functor::Relu6Backward> relu6_backward{.name = "relu6_backward",
                                                               .by_rows = kElementwise2};
inline constexpr Kernel<functor::HardsigmoidBackward> hardsigmoid_backward{
    .name = "hardsigmoid_backward", .by_rows = kElementwise2};
inline constexpr Kernel<functor::HardswishBackward> hardswish_backward{.name = "hardswish_backward",
                                                                       .by_rows = kElementwise2};
inline constexpr Kernel<functor::LeakyReluBackward> leaky_relu_backward{
    .name = "leaky_relu_backward", .by_rows = kElementwise2};
inline constexpr Kernel<functor::SigmoidBackward> sigmoid_backward{.name = "sigmoid_backward",
                                                                   .by_rows = kElementwise2};
inline constexpr Kernel<functor::TanhBackward> tanh_backward{.name = "tanh_backward",
                                                             .by_rows = kElementwise2};
inline constexpr Kernel<functor::GeluBackward> gelu_backward{.name = "gelu_backward",
                                                             .by_rows = kElementwise2};
inline constexpr Kernel<functor::SiluBackward> silu_backward{.name = "silu_backward",
                                                             .by_rows = kElementwise2};
inline constexpr Kernel<functor::AbsBackward> abs_backward{.name = "abs_backward",
                                                           .by_rows = kElementwise2};
inline constexpr Kernel<functor::SqrtBackward> sqrt_backward{.name = "sqrt_backward",
                                                             .by_rows = kElementwise2};
inline constexpr Kernel<functor::ClampBackward> clamp_backward{.name = "clamp_backward",
                                                               .by_rows = kElementwise2};
// exp: dy * y. log: dy / x.
inline constexpr Kernel<functor::Mul> exp_backward{.name = "exp_backward",
                                                   .by_rows = kElementwise2};
inline constexpr Kernel<functor::Div> log_backward{.name = "log_backward",
                                                   .by_rows = kElementwise2};

// in: a, b, any strides; out: y of the shape that they broadcast to, contiguous, which may be an
// input.
inline constexpr Kernel<functor::Add> add{.name = "add", .by_rows = kElementwise2};
inline constexpr Kernel<functor::Sub> sub{.name = "sub", .by_rows = kElementwise2};
inline constexpr Kernel<functor::Mul> mul{.name = "mul", .by_rows = kElementwise2};
inline constexpr Kernel<functor::Div> div{.name = "div", .by_rows = kElementwise2};

}  // namespace kernel

/// Calls for each kernel what it is:
///   `unary(kernel)`      out[0] = f(in[0]), of one shape, contiguous; out[0] may be in[0]
///   `binary(kernel)`     out[0] = f(in[0], in[1]), likewise; out[0] may be an input
///   `broadcast(kernel)`  out[0] = f(in[0], in[1]), inputs of any strides, which broadcast to the
///                        contiguous output, which may be one of them
/// `kernel` is a `Kernel<F>`, and f the functor of type F that a launch has as its attributes.
template <class Registrar>
void for_each_elementwise_kernel(const Registrar& registrar) {
  registrar.unary(kernel::relu);
  registrar.unary(kernel::relu6);
  registrar.unary(kernel::hardsigmoid);
  registrar.unary(kernel::hardswish);
  registrar.unary(kernel::leaky_relu);
  registrar.unary(kernel::sigmoid);
  registrar.unary(kernel::tanh);
  registrar.unary(kernel::gelu);
  registrar.unary(kernel::silu);
  registrar.unary(kernel::neg);
  registrar.unary(kernel::scale);
  registrar.unary(kernel::abs);
  registrar.unary(kernel::exp);
  registrar.unary(kernel::log);
  registrar.unary(kernel::sqrt);
  registrar.unary(kernel::clamp);

  registrar.binary(kernel::relu_backward);
  registrar.binary(kernel::relu6_backward);
  registrar.binary(kernel::hardsigmoid_backward);
  registrar.binary(kernel::hardswish_backward);
  registrar.binary(kernel::leaky_relu_backward);
  registrar.binary(kernel::sigmoid_backward);
  registrar.binary(kernel::tanh_backward);
  registrar.binary(kernel::gelu_backward);
  registrar.binary(kernel::silu_backward);
  registrar.binary(kernel::abs_backward);
  registrar.binary(kernel::sqrt_backward);
  registrar.binary(kernel::clamp_backward);
  registrar.binary(kernel::exp_backward);
  registrar.binary(kernel::log_backward);

  registrar.broadcast(kernel::add);
  registrar.broadcast(kernel::sub);
  registrar.broadcast(kernel::mul);
  registrar.broadcast(kernel::div);
}

}  // namespace brim
