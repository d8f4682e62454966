#include "brim/ops/group_norm_op.h"

#include "brim/ops/reuse.h"

namespace brim {
namespace {

// The inputs, and the outputs for backward.
constexpr int kX = 0, kWeight = 1;
constexpr int kMean = 1, kInverse = 2;

Tensor flat(const Tensor& values) {
  return values.defined() ? contiguous(values).view_as({values.numel()}) : values;
}

}  // namespace

Tensors GroupNormOp::forward(const Tensors& in, const autograd::ForwardContext& context) const {
  require_floating(name(), in[kX]);
  validate(in[kX]);
  Tensor x = contiguous(in[kX]), weight, bias, mean, inverse;
  Shape parameters = parameter_shape(x.shape()), shape = seen_as(x.shape());
  if (has_.weight) weight = in[kWeight];
  if (has_.bias) bias = in[static_cast<size_t>(bias_index())];
  if (has_.weight) require_values_for(name(), x, weight, parameters, "weight");
  if (has_.bias) require_values_for(name(), x, bias, parameters, "bias");
  Tensor y = empty_like(x);
  if (context.for_backward)
    for (Tensor* statistic : {&mean, &inverse})
      *statistic =
          empty({shape[0], attributes_.groups}, {.dtype = Dtype::float64, .device = x.device()});
  launch(kernel::group_norm, {x.view_as(shape), flat(weight), flat(bias)},
         {y.view_as(shape), mean, inverse}, attributes_);
  return {y, mean, inverse};
}

autograd::Saves GroupNormOp::saves(const autograd::Needs& needs) const {
  autograd::Saves saves;
  if (!needs[kX] && !(has_.weight && needs[kWeight])) return saves;  // dbias wants dy alone
  saves.inputs.push_back(kX);
  if (has_.weight && needs[kX]) saves.inputs.push_back(kWeight);
  saves.outputs = {kMean, kInverse};
  return saves;
}

// With xhat = (x - mean) * inverse, g = dy * weight and m values in a group:
//   dbias = sum(dy), dweight = sum(dy * xhat), both over samples and pixels,
//   dx = inverse * (g - sum(g) / m - xhat * sum(g * xhat) / m), the sums over the group.
Tensors GroupNormOp::backward(autograd::BackwardCall& call) const {
  bool weight_needs = has_.weight && call.needs(kWeight);
  bool bias_needs = has_.bias && call.needs(bias_index());
  Tensor x, weight, mean, inverse, dx;
  if (call.needs(kX) || weight_needs) {
    x = contiguous(call.input(kX));
    mean = call.output(kMean);
    inverse = call.output(kInverse);
  }
  if (has_.weight && call.needs(kX)) weight = call.input(kWeight);
  Tensors grads(static_cast<size_t>(call.inputs()));
  auto like_input = [&](int i) {
    return grads[static_cast<size_t>(i)] =
               empty(call.input_info(i).shape, call.input_info(i).options());
  };
  Tensor dy = call.take_grad(), dweight, dbias;
  Shape shape = seen_as(dy.shape());
  if (weight_needs) dweight = like_input(kWeight);
  if (bias_needs) dbias = like_input(bias_index());
  if (call.needs(kX)) dx = grads[kX] = reuse_or_empty(dy);
  auto seen = [&](const Tensor& t) { return t.defined() ? t.view_as(shape) : t; };
  launch(kernel::group_norm_backward, dy.dtype(), {seen(dy), seen(x), flat(weight), mean, inverse},
         {seen(dx), flat(dweight), flat(dbias)}, attributes_);
  return grads;
}

Tensors group_norm_inputs(Tensor x, Tensor weight, Tensor bias) {
  Tensors in{std::move(x)};
  if (weight.defined()) in.push_back(std::move(weight));
  if (bias.defined()) in.push_back(std::move(bias));
  return in;
}

}  // namespace brim
