// Elementwise formulas, one functor each, shared by every device: trivially copyable, with their
// attributes as members. T is float or double; halves come widened (core/launch.h). A functor is
// the attributes of its kernel (`Kernel<functor::Clamp>`), and ops/elementwise_kernels.h names the
// kernels. Activations are in activation_functors.h, losses in loss_functors.h; formulas that need
// more than the elements at one place have kernels of their own.
#pragma once

#include <cmath>

#include "brim/base/host_device.h"

namespace brim::functor {

struct Add {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};

struct Sub {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T a, T b) const {
    return a - b;
  }
};

struct Mul {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T a, T b) const {
    return a * b;
  }
};

struct Div {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T a, T b) const {
    return a / b;
  }
};

/// -x; of a gradient too.
struct Neg {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return -x;
  }
};

/// factor * x; of a gradient too. The factor is rounded as x is computed, not as it is stored.
struct Scale {
  double factor;

  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return x * T(factor);
  }
};

struct Abs {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return std::abs(x);
  }
};

/// From the input x: dy with the sign of x, 0 at 0.
struct AbsBackward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T x) const {
    return x > T(0) ? dy : x < T(0) ? -dy : T(0);
  }
};

struct Exp {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return std::exp(x);
  }
};

struct Log {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return std::log(x);
  }
};

struct Sqrt {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return std::sqrt(x);
  }
};

/// From the output y: dy / (2 y).
struct SqrtBackward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T y) const {
    return dy / (y + y);
  }
};

/// min(max(x, low), high), where a bound that is NaN is none; NaN stays NaN.
struct Clamp {
  double low, high;

  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    x = x < T(low) ? T(low) : x;
    return x > T(high) ? T(high) : x;
  }
};

/// From the output y: the gradient passes where low < y < high; NaN has none.
struct ClampBackward {
  double low, high;

  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T y) const {
    dy = y <= T(low) ? T(0) : dy;
    return y >= T(high) || y != y ? T(0) : dy;
  }
};

}  // namespace brim::functor
