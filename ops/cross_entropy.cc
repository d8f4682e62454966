#include "brim/ops/cross_entropy.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

Shape without_last(const Shape& shape) {
  Shape outer;
  for (int i = 0; i + 1 < shape.size(); ++i) outer.push_back(shape[i]);
  return outer;
}

class CrossEntropy final : public autograd::Op {
 public:
  explicit CrossEntropy(const CrossEntropyOptions& options) : options_(options) {}
  const char* name() const override { return "cross_entropy"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    validate(in[0], in[1]);
    Tensor logits = contiguous(in[0]), labels = contiguous(in[1]), log_sum;
    Shape shape = options_.reduction == Reduction::none ? labels.shape() : Shape{};
    Tensor loss = empty(shape, {.dtype = logits.dtype(), .device = logits.device()});
    if (context.for_backward)
      log_sum = empty(labels.shape(), {.dtype = Dtype::float64, .device = logits.device()});
    launch(kernel::cross_entropy, {logits, labels}, {loss, log_sum}, options_);
    return {loss, log_sum};
  }

  autograd::Saves saves(const autograd::Needs&) const override {
    return {.inputs = {0, 1}, .outputs = {1}};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor logits = contiguous(call.input(0)), dlogits = empty_like(logits);
    launch(kernel::cross_entropy_backward,
           {call.take_grad(), logits, contiguous(call.input(1)), call.output(1)}, {dlogits},
           options_);
    return {dlogits, Tensor()};
  }

  double flops(std::span<const autograd::TensorInfo> in,
               std::span<const autograd::TensorInfo>) const override {
    return 4.0 * static_cast<double>(numel(in[0].shape));  // maximum, subtract, exponential, add
  }

 private:
  void validate(const Tensor& logits, const Tensor& labels) const {
    require_floating(name(), logits);
    expect<DtypeError>(labels.dtype() == Dtype::int64, name(), "expected int64 labels, got {}",
                       to_string(labels.dtype()));
    expect<DeviceError>(labels.device() == logits.device(), name(),
                        "expected one device, got logits on {} and labels on {}",
                        to_string(logits.device()), to_string(labels.device()));
    expect<ShapeError>(logits.dim() >= 1 && logits.size(-1) >= 1, name(),
                       "expected logits [...,C] with at least one class, got {}",
                       to_string(logits.shape()));
    expect<ShapeError>(labels.shape() == without_last(logits.shape()), name(),
                       "expected labels {} for logits {}, got {}",
                       to_string(without_last(logits.shape())), to_string(logits.shape()),
                       to_string(labels.shape()));
  }

  CrossEntropyOptions options_;
};

}  // namespace

Tensor cross_entropy(Tensor logits, Tensor labels, CrossEntropyOptions options, Where where) {
  expect<ValueError>(options.label_smoothing >= 0 && options.label_smoothing <= 1, "cross_entropy",
                     "expected a label smoothing in [0, 1], got {}", options.label_smoothing);
  return autograd::apply_one(std::make_shared<CrossEntropy>(options),
                             {std::move(logits), std::move(labels)}, where);
}

}  // namespace brim
