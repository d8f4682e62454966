// The formulas of activations, one functor each, with that of the gradient behind it; what holds
// for functors is in functors.h. Those of `Activation` (activation.h) take GCC's vectors too
// (cpu/vector.h), for kernels that fuse them: they make numbers as T{} + 6 and choose with ?:
// alone. The others take plain numbers only.
#pragma once

#include "brim/ops/functors.h"

namespace brim::functor {

/// max(x, 0); NaN stays NaN.
struct Relu {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    const T zero{};
    return x < zero ? zero : x;
  }
};

/// From the output y of relu: the gradient passes where y > 0.
struct ReluBackward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T y) const {
    const T zero{};
    return y > zero ? dy : zero;
  }
};

/// min(max(x, 0), 6); NaN stays NaN.
struct Relu6 {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    const T zero{}, six = zero + 6;
    x = x < zero ? zero : x;
    return x > six ? six : x;
  }
};

/// From the output y of relu6: the gradient passes where 0 < y < 6.
struct Relu6Backward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T y) const {
    const T zero{}, six = zero + 6;
    dy = y > zero ? dy : zero;
    return y < six ? dy : zero;
  }
};

/// min(max(x + 3, 0), 6) / 6; NaN stays NaN.
struct Hardsigmoid {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return Relu6()(x + 3) / 6;
  }
};

/// From the output y of hardsigmoid: a sixth of the gradient passes where 0 < y < 1.
struct HardsigmoidBackward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T y) const {
    const T zero{}, one = zero + 1;
    dy = y > zero ? dy / 6 : zero;
    return y < one ? dy : zero;
  }
};

/// x * min(max(x + 3, 0), 6) / 6; NaN stays NaN.
struct Hardswish {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return x * Relu6()(x + 3) / 6;
  }
};

/// From the input x of hardswish: the slope is 0 up to -3, 1 from 3 on and x / 3 + 1/2 between.
struct HardswishBackward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T x) const {
    const T zero{}, three = zero + 3;
    T dx = dy * (x / 3 + 0.5f);
    dx = x <= -three ? zero : dx;
    return x >= three ? dy : dx;
  }
};

/// x above 0, slope * x elsewhere; NaN stays NaN.
struct LeakyRelu {
  double slope = 0.01;

  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return x > T(0) ? x : T(slope) * x;
  }
};

/// From x, or from y where the slope is not negative: both have the same sign then.
struct LeakyReluBackward {
  double slope = 0.01;

  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T x) const {
    return x > T(0) ? dy : T(slope) * dy;
  }
};

/// 1 / (1 + exp(-x)). The exponential is of -|x|, so that it does not overflow and both tails keep
/// their digits.
struct Sigmoid {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    const T e = std::exp(-std::abs(x));
    return (x < T(0) ? e : T(1)) / (T(1) + e);
  }
};

/// From the output y: dy * y * (1 - y).
struct SigmoidBackward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T y) const {
    return dy * (y * (T(1) - y));
  }
};

struct Tanh {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return std::tanh(x);
  }
};

/// From the output y: dy * (1 - y^2), as a product, which loses fewer digits near 1.
struct TanhBackward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T y) const {
    return dy * ((T(1) - y) * (T(1) + y));
  }
};

/// x * sigmoid(x).
struct Silu {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return x * Sigmoid()(x);
  }
};

/// From the input x, with s = sigmoid(x): dy * s * (1 + x * (1 - s)), where 1 - s = sigmoid(-x).
struct SiluBackward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T x) const {
    return dy * (Sigmoid()(x) * (T(1) + x * Sigmoid()(-x)));
  }
};

/// x * Phi(x), with Phi the distribution function of the standard normal: erfc(-x / sqrt(2)) / 2,
/// which keeps the digits of the lower tail where 1 + erf loses them. The approximation of Phi is
/// (1 + tanh(u)) / 2, u = sqrt(2 / pi) * (x + 0.044715 x^3), which is sigmoid(2 u).
struct Gelu {
  bool tanh = false;

  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return x * (tanh ? Sigmoid()(twice_u(x)) : distribution(x));
  }
  template <class T>
  BRIM_HOST_DEVICE static T distribution(T x) {
    return T(0.5) * std::erfc(x * T(-0.70710678118654752440));
  }
  template <class T>
  BRIM_HOST_DEVICE static T twice_u(T x) {
    return T(1.59576912160573071176) * (x * (T(1) + T(0.044715) * x * x));
  }
};

/// From the input x: dy * (Phi(x) + x * exp(-x^2 / 2) / sqrt(2 pi)). Approximated, with
/// s = sigmoid(2 u): dy * s * (1 + x * (1 - s) * 2 u').
struct GeluBackward {
  bool tanh = false;

  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T x) const {
    if (!tanh) {
      const T density = T(0.39894228040143267794) * std::exp(T(-0.5) * x * x);
      return dy * (Gelu::distribution(x) + x * density);
    }
    const T u = Gelu::twice_u(x);
    const T slope = T(1.59576912160573071176) * (T(1) + T(3 * 0.044715) * x * x);
    return dy * (Sigmoid()(u) * (T(1) + x * Sigmoid()(-u) * slope));
  }
};

}  // namespace brim::functor
