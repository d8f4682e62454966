// Elementwise formulas, one functor each, shared by every device: trivially copyable, with their
// attributes as members. T is float or double; halves come widened (core/launch.h). A functor is
// the attributes of its kernel (`Kernel<functor::Relu>`), and ops/elementwise_kernels.h names the
// kernels. Formulas that need more than the elements at one place have kernels of their own.
//
// Those of `Activation` (ops/activation.h) take GCC's vectors too (ops/cpu/vector.h), for kernels
// that fuse them: they make numbers as T{} + 6 and choose with ?: alone.
#pragma once

#ifdef __CUDACC__
#define BRIM_HOST_DEVICE __host__ __device__
#else
#define BRIM_HOST_DEVICE
#endif

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

struct Add {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};

struct Mul {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T a, T b) const {
    return a * b;
  }
};

}  // namespace brim::functor
