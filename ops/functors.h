// Elementwise formulas, one functor each, shared by every device. T is float or double; halves come
// widened (core/launch.h). Nothing is included, so that any device's compiler can read this.
// ops/cpu/elementwise.h makes kernels of them, as `F()`: formulas with attributes go elsewhere.
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
    return x < T(0) ? T(0) : x;
  }
};

/// From the output y of relu: the gradient passes where y > 0.
struct ReluBackward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T y) const {
    return y > T(0) ? dy : T(0);
  }
};

/// min(max(x, 0), 6); NaN stays NaN.
struct Relu6 {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T x) const {
    return x < T(0) ? T(0) : x > T(6) ? T(6) : x;
  }
};

/// From the output y of relu6: the gradient passes where 0 < y < 6.
struct Relu6Backward {
  template <class T>
  BRIM_HOST_DEVICE T operator()(T dy, T y) const {
    return y > T(0) && y < T(6) ? dy : T(0);
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
