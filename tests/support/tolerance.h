// How far a result may be from its float64 reference. Derived, not picked.
//
// The reference runs on the inputs after they were rounded to the dtype under test, so only the
// op's own rounding counts. Let u be the unit roundoff of the arithmetic (half an epsilon: 2^-24
// in float32, which float16 and bfloat16 kernels compute in, 2^-53 in float64), f the result and
//
//   R = |f(x * (1 + h d)) - f(x)| / h,   d = +-1 at random for each input element,
//
// the largest of a few draws, with h = u, or the roundoff of the stored dtype where that is
// lower, so that kinks which rounding can cross show up. R is the size of the random walk that
// relative errors of the inputs cause: sqrt(sum of squares) of the terms of a sum. A sum of n
// terms added in blocks, whose partial sums are added in double or as a tree, errs by at most
// u * (1 + log2 n) times the size of its terms; rounding errors are a random walk themselves, so
// R + |f| (R for sums that cancel, |f| for those that do not) takes the place of the sum of
// absolute values. (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis",
// SIAM J. Sci. Comput. 41, 2019.) With m ops one after the other,
//
//   compute = 4 m u (1 + log2 n) (R + |f| + magnitude),
//
// 4 for a handful of roundings in each formula. In float64 the reference is no better than the
// op: it adds one term after the other, and (1 + log2 n) becomes (1 + log2 n + sqrt n).
//
// A result stored in a dtype of unit roundoff v (2^-11 float16, 2^-8 bfloat16) is off by half a
// unit in its last place, v |f|, or half the smallest subnormal; each op boundary before it by
// v (R + |f|) through what it does to the rest, doubled as R is an estimate:
//
//   store = v |f| + 2 v' (m - 1) (R + |f|) + subnormal / 2,
//
// with v of the result's dtype and v' of the dtype under test.
#pragma once

#include <functional>
#include <vector>

#include "brim/autograd/op.h"

namespace brim::testing {

using Values = std::vector<double>;

struct ErrorModel {
  Dtype dtype = Dtype::float32;   ///< under test: of values between ops
  Dtype stored = Dtype::float32;  ///< of the result
  int64_t reduction = 1;          ///< n
  int ops = 1;                    ///< m
  double magnitude = 0;
};

/// The allowed error of each element of a result with these float64 values and sensitivities.
Values allowances(const ErrorModel& model, const Values& expected, const Values& sensitivity);

/// The h for a dtype.
double probe_step(Dtype dtype);

/// float64 inputs to float64 values of each result.
using Evaluate = std::function<std::vector<Values>(const Tensors&)>;

/// R for each element of each result of `evaluate` at `inputs`; `at` are its values there.
std::vector<Values> sensitivities(const Evaluate& evaluate, const Tensors& inputs,
                                  const std::vector<Values>& at, double step);

}  // namespace brim::testing
