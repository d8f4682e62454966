#include "brim/ops/cross_entropy.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

Shape without_last(const Shape& shape) {
  Shape outer;
  for (int i = 0; i + 1 < shape.size(); ++i) outer.push_back(shape[i]);
  return outer;
}

// Inputs: logits, target, perhaps the weight of the classes.
class CrossEntropy final : public autograd::Op {
 public:
  explicit CrossEntropy(const CrossEntropyOptions& options)
      : attributes_{options.label_smoothing, options.ignore_index, options.reduction} {}
  const char* name() const override { return "cross_entropy"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    validate(in);
    Tensor logits = contiguous(in[0]), log_sum;
    Shape rows = without_last(logits.shape());
    Tensor loss = empty(attributes_.reduction == Reduction::none ? rows : Shape{},
                        {.dtype = logits.dtype(), .device = logits.device()});
    if (context.for_backward)
      log_sum = empty(rows, {.dtype = Dtype::float64, .device = logits.device()});
    launch(kernel::cross_entropy,
           {logits, contiguous(in[1]), in.size() > 2 ? contiguous(in[2]) : Tensor()},
           {loss, log_sum}, attributes_);
    return {loss, log_sum};
  }

  autograd::Saves saves(const autograd::Needs& needs) const override {
    autograd::Saves saves{.inputs = {0, 1}, .outputs = {1}};
    if (needs.size() > 2) saves.inputs.push_back(2);
    return saves;
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor logits = contiguous(call.input(0)), target = contiguous(call.input(1)), weight;
    if (call.inputs() > 2) weight = contiguous(call.input(2));
    Tensors grads(static_cast<size_t>(call.inputs()));
    if (call.needs(0)) grads[0] = empty_like(logits);
    if (call.needs(1)) grads[1] = empty_like(target);
    launch(kernel::cross_entropy_backward, logits.dtype(),
           {call.take_grad(), logits, target, weight, call.output(1)}, {grads[0], grads[1]},
           attributes_);
    return grads;
  }

  double flops(std::span<const autograd::TensorInfo> in,
               std::span<const autograd::TensorInfo>) const override {
    return 4.0 * static_cast<double>(numel(in[0].shape));  // maximum, subtract, exponential, add
  }

 private:
  void validate(const Tensors& in) const {
    const Tensor &logits = in[0], &target = in[1];
    require_floating(name(), logits);
    expect<ShapeError>(logits.dim() >= 1 && logits.size(-1) >= 1, name(),
                       "expected logits [...,C] with at least one class, got {}", logits.shape());
    if (is_floating(target.dtype()))
      require_values_for(name(), logits, target, logits.shape(), "distributions");
    else
      validate_labels(logits, target);
    if (in.size() > 2) require_values_for(name(), logits, in[2], {logits.size(-1)}, "weight");
    expect<ShapeError>(logits.dim() > 1 || attributes_.reduction != Reduction::batch_mean, name(),
                       "expected an axis of samples for batch_mean, got logits {}", logits.shape());
  }

  void validate_labels(const Tensor& logits, const Tensor& labels) const {
    expect<DtypeError>(labels.dtype() == Dtype::int64, name(), "expected int64 labels, got {}",
                       labels.dtype());
    expect<DeviceError>(labels.device() == logits.device(), name(),
                        "expected one device, got logits on {} and labels on {}", logits.device(),
                        labels.device());
    expect<ShapeError>(labels.shape() == without_last(logits.shape()), name(),
                       "expected labels {} for logits {}, got {}", without_last(logits.shape()),
                       logits.shape(), labels.shape());
  }

  kernel::CrossEntropyAttributes attributes_;
};

}  // namespace

Tensor cross_entropy(Tensor logits, Tensor target, CrossEntropyOptions options, Where where) {
  expect<ValueError>(options.label_smoothing >= 0 && options.label_smoothing <= 1, "cross_entropy",
                     "expected a label smoothing in [0, 1], got {}", options.label_smoothing);
  auto op = std::make_shared<CrossEntropy>(options);
  Tensors in{std::move(logits), std::move(target)};
  if (options.weight.defined()) in.push_back(std::move(options.weight));
  return autograd::apply_one(std::move(op), std::move(in), where);
}

}  // namespace brim
