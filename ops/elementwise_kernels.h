// The elementwise kernels, each named once, with the functor that is its formula and its attributes
// (ops/functors.h). A device makes kernels of the functors in its own way and registers all of them
// with one call, so that every device has the same ones: ops/cpu/elementwise.cc does so. For
// authors of ops and devices. What is more than one formula per element registers itself
// (ops/cpu/register.h). Light, so that any device's compiler can read it.
#pragma once

#include "brim/core/kernel.h"
#include "brim/ops/functors.h"

namespace brim {

namespace kernel {

// in: x; out: y. Contiguous.
inline constexpr Kernel<functor::Relu> relu{"relu"};
inline constexpr Kernel<functor::Relu6> relu6{"relu6"};
inline constexpr Kernel<functor::Hardsigmoid> hardsigmoid{"hardsigmoid"};
inline constexpr Kernel<functor::Hardswish> hardswish{"hardswish"};

// in: dy, and x or y as the functor says; out: dx, which may be dy. Contiguous.
inline constexpr Kernel<functor::ReluBackward> relu_backward{"relu_backward"};
inline constexpr Kernel<functor::Relu6Backward> relu6_backward{"relu6_backward"};
inline constexpr Kernel<functor::HardsigmoidBackward> hardsigmoid_backward{"hardsigmoid_backward"};
inline constexpr Kernel<functor::HardswishBackward> hardswish_backward{"hardswish_backward"};

// in: a, b, any strides; out: y of the shape that they broadcast to, contiguous.
inline constexpr Kernel<functor::Add> add{"add"};
inline constexpr Kernel<functor::Mul> mul{"mul"};

}  // namespace kernel

/// Calls for each kernel what it is:
///   `unary(kernel)`      out[0] = f(in[0]), of one shape, contiguous; out[0] may be in[0]
///   `binary(kernel)`     out[0] = f(in[0], in[1]), likewise; out[0] may be an input
///   `broadcast(kernel)`  out[0] = f(in[0], in[1]), inputs of any strides, which broadcast to the
///                        contiguous output
/// `kernel` is a `Kernel<F>`, and f the functor of type F that a launch has as its attributes.
template <class Registrar>
void for_each_elementwise_kernel(const Registrar& registrar) {
  registrar.unary(kernel::relu);
  registrar.unary(kernel::relu6);
  registrar.unary(kernel::hardsigmoid);
  registrar.unary(kernel::hardswish);

  registrar.binary(kernel::relu_backward);
  registrar.binary(kernel::relu6_backward);
  registrar.binary(kernel::hardsigmoid_backward);
  registrar.binary(kernel::hardswish_backward);

  registrar.broadcast(kernel::add);
  registrar.broadcast(kernel::mul);
}

}  // namespace brim
