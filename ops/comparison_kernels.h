// The kernels of comparisons, each with the functor that is its formula, for every device to
// register in its own way. For authors of devices; light, so that any compiler can read it.
#pragma once

#include <cstdint>

#include "brim/base/host_device.h"
#include "brim/core/kernel.h"

namespace brim {

namespace functor {

struct Equal {
  template <class T>
  BRIM_HOST_DEVICE bool operator()(T a, T b) const {
    return a == b;
  }
};

struct NotEqual {
  template <class T>
  BRIM_HOST_DEVICE bool operator()(T a, T b) const {
    return a != b;
  }
};

struct Less {
  template <class T>
  BRIM_HOST_DEVICE bool operator()(T a, T b) const {
    return a < b;
  }
};

struct LessOrEqual {
  template <class T>
  BRIM_HOST_DEVICE bool operator()(T a, T b) const {
    return a <= b;
  }
};

}  // namespace functor

namespace kernel {

// in: a, b, any strides, of the launch's dtype; out: y, bool, of the shape that they broadcast to,
// contiguous. a > b is b < a.
inline constexpr Kernel<functor::Equal> eq{"eq"};
inline constexpr Kernel<functor::NotEqual> ne{"ne"};
inline constexpr Kernel<functor::Less> lt{"lt"};
inline constexpr Kernel<functor::LessOrEqual> le{"le"};

}  // namespace kernel

/// Calls `registrar.template compare<T>(kernel)` for each comparison and T, but for halves.
template <class Registrar>
void for_each_comparison(const Registrar& registrar) {
  const auto of_type = [&]<class T>(T) {
    registrar.template compare<T>(kernel::eq);
    registrar.template compare<T>(kernel::ne);
    registrar.template compare<T>(kernel::lt);
    registrar.template compare<T>(kernel::le);
  };
  of_type(float{});
  of_type(double{});
  of_type(int64_t{});
  of_type(int32_t{});
  of_type(uint8_t{});
}

}  // namespace brim
