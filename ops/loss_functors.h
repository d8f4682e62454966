// The formulas of losses between two tensors of one shape, one functor each, shared by every
// device. T is float or double; halves come widened (core/launch.h). Each gives the loss of one
// element and its derivatives by input x and target t; `weight` is that of the element's channel,
// 1 where there is none. ops/elementwise_loss.h makes ops of them.
#pragma once

#include <cmath>

#include "brim/ops/functors.h"

namespace brim::functor {

/// (x - t)^2
struct SquaredError {
  template <class T>
  BRIM_HOST_DEVICE T loss(T x, T t, T) const {
    return (x - t) * (x - t);
  }
  template <class T>
  BRIM_HOST_DEVICE T by_input(T x, T t, T) const {
    return T(2) * (x - t);
  }
  template <class T>
  BRIM_HOST_DEVICE T by_target(T x, T t, T) const {
    return T(2) * (t - x);
  }
};

/// log(1 + exp(x)), without overflow: max(x, 0) + log1p(exp(-|x|)).
template <class T>
BRIM_HOST_DEVICE T softplus(T x) {
  return (x > T(0) ? x : T(0)) + std::log1p(std::exp(-std::abs(x)));
}

/// weight t softplus(-x) + (1 - t) softplus(x). For t in [0, 1] nothing cancels: small losses keep
/// their digits, which `max(x, 0) - x t + log1p(exp(-|x|))` loses.
struct BinaryCrossEntropy {
  template <class T>
  BRIM_HOST_DEVICE T loss(T x, T t, T weight) const {
    return weight * t * softplus(-x) + (T(1) - t) * softplus(x);
  }
  /// (1 - t) sigmoid(x) - weight t sigmoid(-x)
  template <class T>
  BRIM_HOST_DEVICE T by_input(T x, T t, T weight) const {
    T small = std::exp(-std::abs(x)), below = small / (T(1) + small), above = T(1) / (T(1) + small);
    return x < T(0) ? (T(1) - t) * below - weight * t * above
                    : (T(1) - t) * above - weight * t * below;
  }
  template <class T>
  BRIM_HOST_DEVICE T by_target(T x, T, T weight) const {
    return weight * softplus(-x) - softplus(x);
  }
};

/// t (log t - x), which is 0 at t = 0; or exp(t) (t - x) for a target that is a logarithm.
struct KlDivergence {
  bool log_target = false;

  template <class T>
  BRIM_HOST_DEVICE T loss(T x, T t, T) const {
    if (log_target) return std::exp(t) * (t - x);
    return t == T(0) ? T(0) : t * (std::log(t) - x);
  }
  template <class T>
  BRIM_HOST_DEVICE T by_input(T, T t, T) const {
    return log_target ? -std::exp(t) : -t;
  }
  template <class T>
  BRIM_HOST_DEVICE T by_target(T x, T t, T) const {
    return log_target ? std::exp(t) * (t - x + T(1)) : std::log(t) - x + T(1);
  }
};

}  // namespace brim::functor
