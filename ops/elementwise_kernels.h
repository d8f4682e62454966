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
inline constexpr Kernel<functor::Relu> relu{"relu"};
inline constexpr Kernel<functor::Relu6> relu6{"relu6"};
inline constexpr Kernel<functor::Hardsigmoid> hardsigmoid{"hardsigmoid"};
inline constexpr Kernel<functor::Hardswish> hardswish{"hardswish"};
inline constexpr Kernel<functor::LeakyRelu> leaky_relu{"leaky_relu"};
inline constexpr Kernel<functor::Sigmoid> sigmoid{"sigmoid"};
inline constexpr Kernel<functor::Tanh> tanh{"tanh"};
inline constexpr Kernel<functor::Gelu> gelu{"gelu"};
inline constexpr Kernel<functor::Silu> silu{"silu"};
inline constexpr Kernel<functor::Neg> neg{"neg"};
inline constexpr Kernel<functor::Scale> scale{"scale"};
inline constexpr Kernel<functor::Abs> abs{"abs"};
inline constexpr Kernel<functor::Exp> exp{"exp"};
inline constexpr Kernel<functor::Log> log{"log"};
inline constexpr Kernel<functor::Sqrt> sqrt{"sqrt"};
inline constexpr Kernel<functor::Clamp> clamp{"clamp"};

// in: dy, and x or y as the functor says; out: dx, which may be dy. Contiguous.
inline constexpr Kernel<functor::ReluBackward> relu_backward{"relu_backward"};
inline constexpr Kernel<functor::Relu6Backward> relu6_backward{"relu6_backward"};
inline constexpr Kernel<functor::HardsigmoidBackward> hardsigmoid_backward{"hardsigmoid_backward"};
inline constexpr Kernel<functor::HardswishBackward> hardswish_backward{"hardswish_backward"};
inline constexpr Kernel<functor::LeakyReluBackward> leaky_relu_backward{"leaky_relu_backward"};
inline constexpr Kernel<functor::SigmoidBackward> sigmoid_backward{"sigmoid_backward"};
inline constexpr Kernel<functor::TanhBackward> tanh_backward{"tanh_backward"};
inline constexpr Kernel<functor::GeluBackward> gelu_backward{"gelu_backward"};
inline constexpr Kernel<functor::SiluBackward> silu_backward{"silu_backward"};
inline constexpr Kernel<functor::AbsBackward> abs_backward{"abs_backward"};
inline constexpr Kernel<functor::SqrtBackward> sqrt_backward{"sqrt_backward"};
inline constexpr Kernel<functor::ClampBackward> clamp_backward{"clamp_backward"};
// exp: dy * y. log: dy / x.
inline constexpr Kernel<functor::Mul> exp_backward{"exp_backward"};
inline constexpr Kernel<functor::Div> log_backward{"log_backward"};

// in: a, b, any strides; out: y of the shape that they broadcast to, contiguous, which may be an
// input.
inline constexpr Kernel<functor::Add> add{"add"};
inline constexpr Kernel<functor::Sub> sub{"sub"};
inline constexpr Kernel<functor::Mul> mul{"mul"};
inline constexpr Kernel<functor::Div> div{"div"};

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
