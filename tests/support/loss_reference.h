// Plain loops for losses between two tensors of one shape: the `OpSample::reference` of `mse_loss`,
// `binary_cross_entropy_with_logits` and `kl_div`, and the sample around it. Shares no code with
// ops/elementwise_loss.h. For losses along an axis write the loops out.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "brim/ops/reduction.h"
#include "brim/tests/support/op_spec.h"

namespace brim::testing {

/// The loss of element i.
using LossTerm = std::function<double(double input, double target, size_t i)>;

inline Tensors loss_reference(const Tensors& in, Reduction reduction, const LossTerm& term) {
  std::vector<double> x = in[0].to_vector<double>(), t = in[1].to_vector<double>(), terms;
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    terms.push_back(term(x[i], t[i], i));
    total += terms.back();
  }
  if (reduction == Reduction::none) return {from_vector(terms, in[0].shape())};
  if (reduction == Reduction::mean) total /= static_cast<double>(x.size());
  if (reduction == Reduction::batch_mean) total /= static_cast<double>(in[0].size(0));
  return {full({}, total, {.dtype = Dtype::float64})};
}

/// Sums are over all elements in forward, over none in backward. The empty batch is tried where its
/// loss is a number.
inline OpSample loss_sample(const char* name, Tensor input, Tensor target, Reduction reduction,
                            std::function<Tensor(const Tensors&)> run,
                            std::function<Tensors(const Tensors&)> reference) {
  OpSample sample{
      .name = name,
      .inputs = {input, std::move(target)},
      .run = [run = std::move(run)](const Tensors& in) { return Tensors{run(in)}; },
      .reference = std::move(reference),
      .reduction = reduction == Reduction::none ? 1 : std::max<int64_t>(input.numel(), 1),
      .backward_reduction = 1};
  if (reduction == Reduction::none || reduction == Reduction::sum) sample.batched = {0, 1};
  return sample;
}

}  // namespace brim::testing
