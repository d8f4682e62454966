#include "brim/ops/normalized_conv2d.h"

#include <span>

#include "brim/autograd/input_rule.h"
#include "brim/base/stand_in.h"
#include "brim/ops/batch_norm_op.h"
#include "brim/ops/conv_slices.h"
#include "brim/ops/cpu/normalized_conv2d.h"
#include "brim/ops/linear.h"
#include "brim/ops/op.h"
#include "brim/ops/product.h"

namespace brim {
namespace {

bool has_kernel_for(Dtype dtype, const ConvShape& shape) {
  return dtype == Dtype::float32 && cpu::normalizes_on_the_way(shape);
}

/// Images of what the convolution reads, normalised when they are asked for.
class NormalizedImages {
 public:
  /// `norm_inputs` are those of the norm's op: x first.
  NormalizedImages(const BatchNormOp& norm, const Tensors& norm_inputs, bool in_slices)
      : norm_(norm), inputs_(norm_inputs), in_slices_(in_slices) {}

  bool is_whole() const { return !in_slices_; }
  Tensor rows(int64_t begin, int64_t end) const {
    Tensors of_rows = inputs_;
    of_rows.front() = row_view(of_rows.front(), begin, end);
    return norm_.forward(of_rows, {}).front();
  }

 private:
  const BatchNormOp& norm_;
  const Tensors& inputs_;
  bool in_slices_;
};

// The inputs: those of the norm, with its batch known, then weight and bias of the convolution.
class NormalizedConv2d final : public autograd::Op {
 public:
  NormalizedConv2d(BatchNormOp norm, const Conv2dOptions& options)
      : norm_(std::move(norm)), options_(options) {}
  const char* name() const override { return "normalized_conv2d"; }
  int visible_outputs() const override { return 3; }
  std::vector<int> anchors() const override { return {kMean, kVariance}; }
  void validate(const Tensors& in) const { norm_.validate(in); }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    return run(in, true);
  }
  // The norm behind it has the statistics; they are not taken again.
  Tensors forward_again(const Tensors& in, const Tensors&,
                        const autograd::ForwardContext&) const override {
    return run(in, false);
  }

  void apply_effects(const Tensors& in, const Tensors&) const override {
    norm_.apply_effects(in, {});
  }

  autograd::Saves saves(const autograd::Needs& needs) const override {
    autograd::Saves saves;
    for (int i = 0; i < kWeight; ++i) saves.inputs.push_back(i);
    if (needs_norm([&](int i) { return needs[static_cast<size_t>(i)]; }))
      saves.inputs.push_back(kWeight);
    return saves;
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    const Tensor dy = call.take_grad();
    Tensors grads(static_cast<size_t>(call.inputs())), norm_inputs;
    for (size_t i = 0; i < grads.size(); ++i) {
      const int input = static_cast<int>(i);
      if (input < kWeight) norm_inputs.push_back(contiguous(call.input(input)));
      // That of x comes later, and what flows to the statistics is in it.
      const bool has_own =
          input == BatchNormOp::kWeight || input == BatchNormOp::kBias || input >= kWeight;
      if (has_own && call.needs(input))
        grads[i] = empty(call.input_info(input).shape, call.input_info(input).options());
    }
    if (has_bias(grads.size()) && call.needs(kBias))
      launch(kernel::bias_gradient, {dy}, {grads[kBias]});
    const Shape &x = call.input_info(0).shape, &weight = call.input_info(kWeight).shape;
    const ConvShape shape(x, weight, dy.shape(), options_);
    const bool into_norm = needs_norm([&](int i) { return call.needs(i); });
    const bool as_one =
        into_norm && dy.dtype() == Dtype::float32 && cpu::has_normalized_backward(shape);
    const bool with_weight = as_one && cpu::has_normalized_weight(shape);
    if (call.needs(kWeight) && !with_weight)
      launch_backward_weight(
          shape, options_, WeightGradientInput::x,
          NormalizedImages(norm_, norm_inputs, has_slices(shape, call.input_info(0))), dy,
          grads[kWeight]);
    if (as_one)
      backward_as_one(call, dy, norm_inputs, with_weight, grads);
    else if (into_norm)
      backward_norm(call, dy, norm_inputs, grads);
    return grads;
  }

  double flops(std::span<const autograd::TensorInfo> inputs,
               std::span<const autograd::TensorInfo> outputs) const override {
    // Of the statistics of y: subtract, add, multiply-add.
    return norm_.flops(inputs, {}) + convolution_flops(outputs[0].shape, inputs[kWeight].shape) +
           4.0 * static_cast<double>(numel(outputs[0].shape));
  }

 private:
  static constexpr int kWeight = BatchNormOp::kGivenVariance + 1, kBias = kWeight + 1;
  static constexpr int kMean = 1, kVariance = 2;  // outputs, after y

  static bool has_bias(size_t inputs) { return inputs > kBias; }
  /// Does a gradient go into the norm?
  template <class NeedsInput>
  static bool needs_norm(const NeedsInput& needs) {
    return needs(BatchNormOp::kX) || needs(BatchNormOp::kWeight) || needs(BatchNormOp::kBias);
  }

  Tensors run(const Tensors& in, bool with_statistics) const {
    const Tensor &x = in[BatchNormOp::kX], &weight = in[kWeight];
    require_same_kind(name(), x, weight);
    const Shape shape = conv2d_shape(x.shape(), weight.shape(), options_);
    const Tensor bias = has_bias(in.size()) ? contiguous(in[kBias]) : Tensor();
    if (bias.defined()) require_bias(name(), weight, bias, shape[3]);
    Tensors out{empty(shape, {.dtype = x.dtype(), .device = x.device()}), Tensor(), Tensor()};
    const TensorOptions statistics{.dtype = Dtype::float64, .device = x.device()};
    for (int i : {kMean, kVariance})
      if (with_statistics) out[static_cast<size_t>(i)] = empty({shape[3]}, statistics);
    if (has_kernel_for(x.dtype(), ConvShape(x.shape(), weight.shape(), shape, options_)))
      launch(kernel::normalized_conv2d,
             {contiguous(x), contiguous(in[BatchNormOp::kWeight]),
              contiguous(in[BatchNormOp::kBias]), contiguous(in[BatchNormOp::kGivenMean]),
              contiguous(in[BatchNormOp::kGivenVariance]), contiguous(weight), bias},
             {out[0], out[1], out[2]}, {options_, norm_.attributes()});
    else
      convolve({norm_.forward(in, {}).front(), contiguous(weight), bias}, out);
    return out;
  }

  /// What is normalised.
  void convolve(const Tensors& in, const Tensors& out) const {
    if (out[kMean].defined())
      launch(kernel::conv2d_with_statistics, out[0].dtype(), in, out, options_);
    else
      launch(kernel::conv2d, out[0].dtype(), in, std::span(out).first(1), options_);
  }

  /// For dx, if it is wanted: it is made in any case.
  static Tensor take_dx(const autograd::BackwardCall& call, Tensors& grads) {
    const autograd::TensorInfo& info = call.input_info(BatchNormOp::kX);
    Tensor dx = empty(info.shape, info.options());
    if (call.needs(BatchNormOp::kX)) grads[BatchNormOp::kX] = dx;
    return dx;
  }

  void backward_as_one(const autograd::BackwardCall& call, const Tensor& dy, const Tensors& in,
                       bool with_weight, Tensors& grads) const {
    const Tensor dx = take_dx(call, grads);
    launch(kernel::normalized_conv2d_backward,
           {in[0], in[1], in[2], in[3], in[4], dy, contiguous(call.input(kWeight))},
           {dx, grads[BatchNormOp::kWeight], grads[BatchNormOp::kBias],
            with_weight ? grads[kWeight] : Tensor()},
           {options_, norm_.attributes()});
  }

  void backward_norm(const autograd::BackwardCall& call, const Tensor& dy, const Tensors& in,
                     Tensors& grads) const {
    const Tensor dx = take_dx(call, grads);
    launch(kernel::conv2d_backward_data, {dy, contiguous(call.input(kWeight))}, {dx}, options_);
    launch(
        kernel::batch_norm_backward, dx.dtype(),
        {dx, in[BatchNormOp::kX], in[BatchNormOp::kWeight], in[BatchNormOp::kGivenMean],
         in[BatchNormOp::kGivenVariance], in[BatchNormOp::kBias], Tensor(), Tensor()},
        {grads[BatchNormOp::kX], grads[BatchNormOp::kWeight], grads[BatchNormOp::kBias], Tensor()},
        norm_.attributes());
  }

  BatchNormOp norm_;
  Conv2dOptions options_;
};

bool is_one_op(const Tensor& x, const BatchNormArguments& norm) {
  return norm.options.training && norm.options.mean.defined() && norm.options.variance.defined() &&
         !norm.options.residual.defined() && device_meant(x.device()).is_cpu() &&
         !is_low_precision(x.dtype()) && autograd::input_rule() == nullptr;
}

}  // namespace

bool normalizes_on_the_way(const Tensor& x, const BatchNormArguments& norm, const Tensor& weight,
                           const Conv2dOptions& options) {
  if (!is_one_op(x, norm)) return false;
  const Shape y = conv2d_shape(x.shape(), weight.shape(), options);
  return cpu::normalizes_on_the_way(ConvShape(x.shape(), weight.shape(), y, options));
}

Conv2dWithStatistics normalized_conv2d(Tensor x, BatchNormArguments norm, Tensor weight,
                                       Tensor bias, const Conv2dOptions& options, Where where) {
  if (!is_one_op(x, norm)) {
    Tensor y = batch_norm(std::move(x), std::move(norm.weight), std::move(norm.bias),
                          std::move(norm.running_mean), std::move(norm.running_var),
                          std::move(norm.options), where);
    return conv2d_with_statistics(std::move(y), std::move(weight), std::move(bias), options, where);
  }
  require_batch_norm(norm.options, norm.running_mean, norm.running_var);
  auto op = std::make_shared<NormalizedConv2d>(
      BatchNormOp(norm.options, std::move(norm.running_mean), std::move(norm.running_var)),
      options);
  Tensors in{std::move(x),
             std::move(norm.weight),
             std::move(norm.bias),
             std::move(norm.options.mean),
             std::move(norm.options.variance),
             std::move(weight)};
  if (bias.defined()) in.push_back(std::move(bias));
  op->validate(in);
  Tensors out = autograd::apply(std::move(op), std::move(in), where);
  return {std::move(out[0]), out[1].detach(), out[2].detach()};
}

}  // namespace brim
