// Initial values. A rule fills one parameter, as a pure function of a key and the element's number;
// `initialize` derives the key from a seed and the parameter's name. So a model starts from the
// same values on every device, and a layer's do not depend on which layers were made before it.
//
// Numbers are drawn in float: a float32 and a float64 model of one seed start equal but for
// rounding.
#pragma once

#include <cstdint>
#include <functional>

#include "brim/core/tensor.h"

namespace brim::nn {

class Module;

/// Fills a contiguous tensor from a key.
using Init = std::function<void(const Tensor&, RandomKey)>;

/// Inputs that reach one output of a weight, or outputs that one input reaches, as PyTorch counts
/// them: [K,R,S,C/groups] has fan in R*S*C/groups and fan out R*S*K (groups are not divided out);
/// [out,in] has in and out. Throws `ShapeError` for other ranks.
enum class Fan { in, out };
int64_t fan_of(const Shape& weight, Fan fan);

/// He et al., "Delving Deep into Rectifiers", ICCV 2015. The gain of ReLU is sqrt(2).
struct KaimingOptions {
  Fan fan = Fan::in;
  double gain = 1.4142135623730951;
};

namespace init {

Init constant(double value);
/// Normal with mean 0.
Init normal(double deviation);
/// Uniform in [-bound, bound).
Init uniform(double bound);
/// Normal with deviation gain / sqrt(fan).
Init kaiming_normal(const KaimingOptions& options = {});
/// Uniform with that deviation: bound gain * sqrt(3 / fan).
Init kaiming_uniform(const KaimingOptions& options = {});
/// Glorot and Bengio, AISTATS 2010: deviation gain * sqrt(2 / (fan in + fan out)).
Init xavier_normal(double gain = 1);
Init xavier_uniform(double gain = 1);

}  // namespace init

/// Gives every parameter and buffer of `module` its initial values, by the rule that it was
/// registered with. Call it on the root: names, and so values, are those seen from there.
void initialize(Module& module, uint64_t seed);

}  // namespace brim::nn
