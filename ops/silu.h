// Sigmoid linear unit, x * sigmoid(x), also called swish (Elfwing, Uchibe and Doya,
// "Sigmoid-Weighted Linear Units", 2018): smooth, and slightly negative below 0. In one op it saves
// one tensor, where `mul(x, sigmoid(x))` saves two. `hardswish` is its stand-in without `exp`,
// which `batch_norm` fuses.
#pragma once

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"

namespace brim {

/// y = x / (1 + exp(-x)), elementwise; any shape, floating dtypes. NaN stays NaN, and nothing
/// overflows. Saves its input: y falls and rises again, so it does not tell x.
Tensor silu(Tensor x, Where where = Where::current());

}  // namespace brim
