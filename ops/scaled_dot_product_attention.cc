#include "brim/ops/scaled_dot_product_attention.h"

#include <cmath>

#include "brim/ops/add.h"
#include "brim/ops/autocast.h"
#include "brim/ops/cast.h"
#include "brim/ops/dropout.h"
#include "brim/ops/matmul.h"
#include "brim/ops/op.h"
#include "brim/ops/permute.h"
#include "brim/ops/softmax.h"
#include "brim/ops/unary.h"

namespace brim {
namespace {

constexpr const char* kTag = "scaled_dot_product_attention";

Shape leading(const Tensor& x) {
  return Shape(std::span(x.shape().begin(), static_cast<size_t>(x.dim() - 2)));
}

// Checks the operands; returns the shape of the scores.
Shape scores_shape(const Tensor& q, const Tensor& k, const Tensor& v) {
  require_floating(kTag, q);
  require_same_kind(kTag, q, k);
  require_same_kind(kTag, q, v);
  bool matrices = q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2;
  expect<ShapeError>(matrices && q.size(-1) == k.size(-1) && k.size(-2) == v.size(-2), kTag,
                     "expected q [...,L,E], k [...,S,E] and v [...,S,F], got {}, {} and {}",
                     q.shape(), k.shape(), v.shape());
  Shape scores = broadcast_shapes(leading(q), leading(k), kTag);
  broadcast_shapes(scores, leading(v), kTag);
  scores.push_back(q.size(-2));
  scores.push_back(k.size(-2));
  return scores;
}

// The mask as a term of the scores.
Tensor bias_of(Tensor mask, const Tensor& q, const Shape& scores) {
  expect<DtypeError>(mask.dtype() == Dtype::boolean || mask.dtype() == q.dtype(), kTag,
                     "expected a mask of bool or {}, got {}", q.dtype(), mask.dtype());
  expect<DeviceError>(mask.device() == q.device(), kTag, "expected a mask on {}, got it on {}",
                      q.device(), mask.device());
  expect<ShapeError>(broadcast_shapes(mask.shape(), scores, kTag) == scores, kTag,
                     "expected a mask that broadcasts to the scores {}, got {}", scores,
                     mask.shape());
  if (mask.dtype() != Dtype::boolean) return mask;
  Tensor bias = empty(mask.shape(), {.dtype = q.dtype(), .device = q.device()});
  launch(kernel::attention_bias, {contiguous(mask)}, {bias});
  return bias;
}

Tensor causal_bias(const Tensor& q, const Shape& scores) {
  int rank = scores.size();
  Tensor bias =
      empty({scores[rank - 2], scores[rank - 1]}, {.dtype = q.dtype(), .device = q.device()});
  launch(kernel::attention_bias, {Tensor()}, {bias});
  return bias;
}

// The products take their operands so; here the checks are to see it, and the mask goes along.
Tensor as_autocast(Tensor x, Where where) {
  const Dtype low = autocast_dtype();
  const bool casts =
      x.defined() && is_low_precision(low) && is_floating(x.dtype()) && x.dtype() != Dtype::float64;
  return casts ? cast(std::move(x), low, where) : x;
}

Tensor transposed(Tensor x, Where where) {
  std::vector<int> axes;
  for (int i = 0; i < x.dim(); ++i) axes.push_back(i);
  std::swap(axes[axes.size() - 2], axes.back());
  return permute(std::move(x), axes, where);
}

}  // namespace

Tensor scaled_dot_product_attention(Tensor q, Tensor k, Tensor v, AttentionOptions options,
                                    Where where) {
  expect<ValueError>(options.dropout >= 0 && options.dropout <= 1, kTag,
                     "expected a dropout in [0, 1], got {}", options.dropout);
  for (Tensor* each : {&q, &k, &v, &options.mask}) *each = as_autocast(std::move(*each), where);
  Shape shape = scores_shape(q, k, v);
  Tensor mask, causal;
  if (options.mask.defined()) mask = bias_of(std::move(options.mask), q, shape);
  if (options.causal) causal = causal_bias(q, shape);
  double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  // q is smaller than the scores. A factor in a half would be rounded once more.
  q = apply_unary(std::move(q), where, UnarySaves::nothing, kernel::scale, kernel::scale, {scale},
                  {scale});
  Tensor weights = matmul(std::move(q), transposed(std::move(k), where), where);
  if (mask.defined()) weights = add(std::move(weights), std::move(mask), where);
  if (causal.defined()) weights = add(std::move(weights), std::move(causal), where);
  weights = softmax(std::move(weights), -1, where);
  if (options.dropout > 0) weights = dropout(std::move(weights), {.p = options.dropout}, where);
  return matmul(std::move(weights), std::move(v), where);
}

}  // namespace brim
