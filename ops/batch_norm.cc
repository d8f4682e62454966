#include <cmath>

#include "brim/autograd/effects.h"
#include "brim/autograd/input_rule.h"
#include "brim/ops/batch_norm_op.h"
#include "brim/ops/reuse.h"

namespace brim {
namespace {

int64_t values_per_channel(const Tensor& x) {
  int64_t count = 1;
  for (int axis = 0; axis + 1 < x.dim(); ++axis) count *= x.size(axis);
  return count;
}

}  // namespace

void BatchNormOp::validate(const Tensors& in) const {
  const Tensor& x = in[kX];
  require_floating(name(), x);
  expect<ShapeError>(x.dim() >= 1, name(), "expected an input with channels, got a scalar");
  Shape channels{x.size(-1)};
  require_values_for(name(), x, in[kWeight], channels, "weight");
  require_values_for(name(), x, in[kBias], channels, "bias");
  const Tensor& mean = attributes_.training ? running_mean_ : in[kGivenMean];
  const Tensor& var = attributes_.training ? running_var_ : in[kGivenVariance];
  if (knows_batch_)
    for (const Tensor& given : {in[kGivenMean], in[kGivenVariance]})
      expect<ValueError>(given.shape() == channels && given.dtype() == Dtype::float64 &&
                             given.device() == x.device(),
                         name(),
                         "expected mean and variance of the batch as float64 {} beside the input, "
                         "got {} {}",
                         channels, given.dtype(), given.shape());
  if (mean.defined()) require_values_for(name(), x, mean, channels, "running_mean");
  if (var.defined()) require_values_for(name(), x, var, channels, "running_var");
  if (attributes_.training && mean.defined() && var.defined()) {
    expect<DtypeError>(mean.dtype() == var.dtype(), name(),
                       "expected running_mean and running_var of one dtype, got {} and {}",
                       mean.dtype(), var.dtype());
    expect<ShapeError>(mean.is_contiguous() && var.is_contiguous(), name(),
                       "expected contiguous running_mean and running_var to update");
  }
  if (has_residual_) {
    const Tensor& residual = in[static_cast<size_t>(residual_index())];
    expect<ShapeError>(residual.shape() == x.shape(), name(),
                       "expected a residual of the input's shape {}, got {}", x.shape(),
                       residual.shape());
  }
  if (attributes_.training)
    expect<ValueError>(values_per_channel(x) != 1, name(),
                       "expected more than 1 value per channel when training, got input {}",
                       x.shape());
}

void BatchNormOp::statistics(const Tensors& in, const Tensor& x, Tensor& mean,
                             Tensor& variance) const {
  if (knows_batch_) {
    mean = contiguous(in[kGivenMean]);
    variance = contiguous(in[kGivenVariance]);
    return;
  }
  TensorOptions options{.dtype = Dtype::float64, .device = x.device()};
  mean = empty({x.size(-1)}, options);
  variance = empty({x.size(-1)}, options);
  if (attributes_.training) {
    launch(kernel::batch_norm_statistics, x.dtype(), {x}, {mean, variance});
  } else {
    copy_into(mean, in[kGivenMean]);
    copy_into(variance, in[kGivenVariance]);
  }
}

Tensors BatchNormOp::forward(const Tensors& in, const autograd::ForwardContext& context) const {
  if (has_residual_) require_same_kind(name(), in[kX], in[static_cast<size_t>(residual_index())]);
  Tensor mean, variance;
  statistics(in, contiguous(in[kX]), mean, variance);
  Tensor y = normalise(in, mean, variance, context);
  if (knows_batch_) return {y};
  if (!context.for_backward && !attributes_.training) return {y, Tensor(), Tensor()};
  return {y, mean, variance};
}

Tensors BatchNormOp::forward_again(const Tensors& in, const Tensors& known,
                                   const autograd::ForwardContext& context) const {
  if (knows_batch_) return forward(in, context);
  const Tensor &mean = known[kMean], &variance = known[kVariance];
  if (!mean.defined() || !variance.defined()) return forward(in, context);
  return {normalise(in, mean, variance, context), mean, variance};
}

Tensor BatchNormOp::normalise(const Tensors& in, const Tensor& mean, const Tensor& variance,
                              const autograd::ForwardContext& context) const {
  Tensor x = contiguous(in[kX]), residual;
  if (has_residual_) residual = contiguous(in[static_cast<size_t>(residual_index())]);
  Tensor y = output_over(in, context, x);
  launch(kernel::batch_norm, x.dtype(),
         {x, contiguous(in[kWeight]), contiguous(in[kBias]), mean, variance, residual}, {y},
         attributes_);
  return y;
}

void BatchNormOp::apply_effects(const Tensors& in, const Tensors& out) const {
  int64_t count = values_per_channel(in[kX]);
  if (!attributes_.training || !running_mean_.defined() || count == 0) return;
  auto [part, before] = autograd::effect_share();
  double n = std::round(static_cast<double>(count) / part);
  launch(kernel::running_statistics, {batch_mean(in, out), batch_variance(in, out), running_mean_},
         {autograd::effect_target(running_mean_), autograd::effect_target(running_var_)},
         {.momentum = momentum_, .correction = n / (n - 1), .part = part, .before = before});
}

autograd::Saves BatchNormOp::saves(const autograd::Needs& needs) const {
  autograd::Saves saves;
  if (derives_from_x() || needs[kWeight] || (needs[kX] && attributes_.training))
    saves.inputs.push_back(kX);
  if (derives_from_x() || needs[kX]) saves.inputs.push_back(kWeight);
  if (derives_from_x()) saves.inputs.push_back(kBias);
  if (derives_from_x() && has_residual_) saves.inputs.push_back(residual_index());
  if (derives_from_y()) saves.outputs.push_back(kY);
  if (activates() || needs[kX] || needs[kWeight]) {
    std::vector<int>& to = knows_batch_ ? saves.inputs : saves.outputs;
    to.push_back(knows_batch_ ? kGivenMean : kMean);
    to.push_back(knows_batch_ ? kGivenVariance : kVariance);
  }
  return saves;
}

// With g = dy * the derivative of the activation, n values per channel and
// xhat = (x - mean) / sqrt(variance + epsilon):
//   dbias = sum(g), dweight = sum(g * xhat), dresidual = g,
//   dx = weight / sqrt(variance + epsilon) * (g - dbias / n - xhat * dweight / n),
// the last two terms in training only.
Tensors BatchNormOp::backward(autograd::BackwardCall& call) const {
  auto saved = saves({call.needs(kX), call.needs(kWeight), call.needs(kBias)});
  Tensor in[kGivenVariance + 2], out[kVariance + 1];
  for (int i : saved.inputs) in[i] = contiguous(call.input(i));
  for (int i : saved.outputs) {
    if (call.is_derived(i)) {
      for (int k : {kX, kWeight, kBias, residual_index()}) in[k] = contiguous(call.replay_input(k));
    } else {
      out[i] = call.output(i);
    }
  }

  Tensors grads(static_cast<size_t>(call.inputs()));
  auto like_input = [&](int i) {
    return call.needs(i) ? empty(call.input_info(i).shape, call.input_info(i).options()) : Tensor();
  };
  grads[kWeight] = like_input(kWeight);
  grads[kBias] = like_input(kBias);
  bool residual_needs = has_residual_ && call.needs(residual_index());
  Tensor dy = call.take_grad(), dresidual;
  if (residual_needs && activates()) dresidual = reuse_or_empty(dy);
  if (residual_needs && !activates()) dresidual = dy;
  if (call.needs(kX)) grads[kX] = residual_needs ? empty_like(dy) : reuse_or_empty(dy);
  launch(kernel::batch_norm_backward, dy.dtype(),
         {dy, in[kX], in[kWeight], batch_mean(in, out), batch_variance(in, out), in[kBias], out[kY],
          has_residual_ ? in[residual_index()] : Tensor()},
         {grads[kX], grads[kWeight], grads[kBias], activates() ? dresidual : Tensor()},
         attributes_);
  if (residual_needs) grads[static_cast<size_t>(residual_index())] = dresidual;
  return grads;
}

void require_batch_norm(const BatchNormOptions& options, const Tensor& running_mean,
                        const Tensor& running_var) {
  constexpr const char* kTag = "batch_norm";
  expect<ValueError>(options.epsilon > 0, kTag, "expected a positive epsilon, got {}",
                     options.epsilon);
  expect<ValueError>(options.momentum >= 0 && options.momentum <= 1, kTag,
                     "expected a momentum in [0, 1], got {}", options.momentum);
  expect<ValueError>(running_mean.defined() == running_var.defined(), kTag,
                     "expected both running_mean and running_var, or neither");
  expect<ValueError>(options.mean.defined() == options.variance.defined(), kTag,
                     "expected both mean and variance of the batch, or neither");
  expect<ValueError>(options.training || running_mean.defined(), kTag,
                     "expected running statistics for evaluation");
}

Tensor batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor running_mean, Tensor running_var,
                  BatchNormOptions options, Where where) {
  require_batch_norm(options, running_mean, running_var);
  // Autocast casts the residual, but for calls that have a float64 input.
  if (autograd::input_rule() != nullptr) options.mean = options.variance = Tensor();
  auto op = options.training ? std::make_shared<BatchNormOp>(options, std::move(running_mean),
                                                             std::move(running_var))
                             : std::make_shared<BatchNormOp>(options, Tensor(), Tensor());
  Tensors in{std::move(x), std::move(weight), std::move(bias)};
  if (!options.training) {
    in.push_back(std::move(running_mean));
    in.push_back(std::move(running_var));
  } else if (options.mean.defined()) {
    in.push_back(std::move(options.mean));
    in.push_back(std::move(options.variance));
  }
  if (options.residual.defined()) in.push_back(std::move(options.residual));
  op->validate(in);
  return autograd::apply_one(std::move(op), std::move(in), where);
}

}  // namespace brim
