#include "brim/ops/conv2d.h"

#include <algorithm>

#include "brim/autograd/input_rule.h"
#include "brim/base/stand_in.h"
#include "brim/ops/conv_slices.h"
#include "brim/ops/cpu/few_pixels.h"
#include "brim/ops/linear.h"
#include "brim/ops/op.h"
#include "brim/ops/product.h"

namespace brim {
namespace {

constexpr const char* kName = "conv2d";

void require_options(const Conv2dOptions& o) {
  expect<ValueError>(std::min(o.stride.h, o.stride.w) >= 1, kName,
                     "expected strides of at least 1, got {}", o.stride);
  expect<ValueError>(std::min(o.padding.h, o.padding.w) >= 0, kName,
                     "expected paddings of at least 0, got {}", o.padding);
  expect<ValueError>(std::min(o.dilation.h, o.dilation.w) >= 1, kName,
                     "expected dilations of at least 1, got {}", o.dilation);
  expect<ValueError>(o.groups >= 1, kName, "expected at least 1 group, got {}", o.groups);
}

/// Positions of a window of `taps` along an axis of `size`.
int64_t positions(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation,
                  const char* axis) {
  int64_t padded = 0, reach = 0;
  bool fits = !__builtin_mul_overflow(padding, int64_t{2}, &padded) &&
              !__builtin_add_overflow(padded, size, &padded) &&
              !__builtin_mul_overflow(dilation, taps - 1, &reach) && reach < padded;
  expect<ShapeError>(fits, kName,
                     "expected a window within the padded input, got {} {} with padding {} and a "
                     "window of {} with dilation {}",
                     axis, size, padding, taps, dilation);
  return (padded - reach - 1) / stride + 1;
}

class Conv2d final : public autograd::Op {
 public:
  Conv2d(const Conv2dOptions& options, bool with_statistics)
      : options_(options), with_statistics_(with_statistics) {}
  const char* name() const override { return kName; }
  int visible_outputs() const override { return with_statistics_ ? 3 : 1; }
  std::vector<int> anchors() const override {
    return with_statistics_ ? std::vector{kMean, kVariance} : std::vector<int>();
  }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    return run(in, with_statistics_);
  }

  // The norm has the statistics; they are not taken again.
  Tensors forward_again(const Tensors& in, const Tensors&,
                        const autograd::ForwardContext&) const override {
    Tensors out = run(in, false);
    out.resize(static_cast<size_t>(visible_outputs()));
    return out;
  }

  autograd::Saves saves(const autograd::Needs& needs) const override {
    return saves_of_product(needs);
  }

  bool reads_rows(int input, std::span<const autograd::TensorInfo> in,
                  std::span<const autograd::TensorInfo> out) const override {
    return input == 0 && has_slices({in[0].shape, in[1].shape, out[0].shape, options_}, in[0]);
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad();
    Tensors grads(static_cast<size_t>(call.inputs()));
    if (grads.size() > 2 && call.needs(2)) {
      grads[2] = empty(call.input_info(2).shape, call.input_info(2).options());
      launch(kernel::bias_gradient, {dy}, {grads[2]});
    }
    if (call.needs(1) && !give_weight_factors(call, dy)) {
      grads[1] = empty(call.input_info(1).shape, call.input_info(1).options());
      launch_backward_weight(
          ConvShape(call.input_info(0).shape, grads[1].shape(), dy.shape(), options_), options_,
          WeightGradientInput::x, call.take_input_rows(0), dy, grads[1]);
    }
    if (call.needs(0)) grads[0] = data_gradient(call, dy);
    return grads;
  }

  double flops(std::span<const autograd::TensorInfo> inputs,
               std::span<const autograd::TensorInfo> outputs) const override {
    // Of statistics: subtract, add, multiply-add.
    const double gathered =
        with_statistics_ ? 4.0 * static_cast<double>(numel(outputs[0].shape)) : 0;
    return convolution_flops(outputs[0].shape, inputs[1].shape) + gathered;
  }

 private:
  static constexpr int kMean = 1, kVariance = 2;  // outputs, after y

  // The gradient of a weight that meets few pixels, as a product that an optimizer may make itself:
  // to the bit that of `few_pixels_backward_weight`, from less than it takes. False where it is not
  // given so.
  bool give_weight_factors(autograd::BackwardCall& call, const Tensor& dy) const {
    const ConvShape shape(call.input_info(0).shape, call.input_info(1).shape, dy.shape(), options_);
    if (device_meant(dy.device()).is_cuda() || is_low_precision(dy.dtype()) ||
        !cpu::has_few_pixels(shape) ||
        shape.pixels() * (shape.k + shape.window()) >= shape.k * shape.window() ||
        !call.takes_factors(1))
      return false;
    Tensor windows = contiguous(call.take_input(0));
    if (!shape.is_pointwise()) {
      const Tensor x = std::move(windows);
      windows = empty({shape.n, shape.p, shape.q, shape.r, shape.s, shape.c},
                      {.dtype = x.dtype(), .device = x.device()});
      launch(kernel::conv2d_windows, {x}, {windows}, options_);
    }
    call.give_factors(1, {dy, std::move(windows)});
    return true;
  }

  // Of a block's first convolution, whose input goes around the block too, it is added where the
  // gradient from there lies.
  Tensor data_gradient(autograd::BackwardCall& call, const Tensor& dy) const {
    const Tensor weight = contiguous(call.input(1));
    const ConvShape shape(call.input_info(0).shape, weight.shape(), dy.shape(), options_);
    if (shape.is_pointwise() && shape.groups == 1 &&
        has_kernel(kernel::conv2d_backward_data_add.name, device_meant(dy.device()).type,
                   dy.dtype()))
      if (Tensor sum = call.take_sum(0); sum.defined()) {
        launch(kernel::conv2d_backward_data_add, {dy, weight}, {sum}, options_);
        return sum;
      }
    Tensor dx = empty(call.input_info(0).shape, call.input_info(0).options());
    launch(kernel::conv2d_backward_data, {dy, weight}, {dx}, options_);
    return dx;
  }

  Tensors run(const Tensors& in, bool with_statistics) const {
    require_floating(name(), in[0]);
    require_same_kind(name(), in[0], in[1]);
    Shape shape = conv2d_shape(in[0].shape(), in[1].shape(), options_);
    if (in.size() > 2) require_bias(name(), in[1], in[2], shape[3]);
    Tensor x = contiguous(in[0]), weight = contiguous(in[1]);
    Tensor bias = in.size() > 2 ? contiguous(in[2]) : Tensor();
    Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
    if (!with_statistics) {
      launch(kernel::conv2d, {x, weight, bias}, {y}, options_);
      return {y};
    }
    const TensorOptions options{.dtype = Dtype::float64, .device = x.device()};
    Tensor mean = empty({shape[3]}, options), variance = empty({shape[3]}, options);
    launch(kernel::conv2d_with_statistics, x.dtype(), {x, weight, bias}, {y, mean, variance},
           options_);
    return {y, mean, variance};
  }

  Conv2dOptions options_;
  bool with_statistics_;
};

Tensors inputs_of(Tensor x, Tensor weight, Tensor bias) {
  Tensors inputs;
  inputs.push_back(std::move(x));
  inputs.push_back(std::move(weight));
  if (bias.defined()) inputs.push_back(std::move(bias));
  return inputs;
}

}  // namespace

Shape conv2d_shape(const Shape& x, const Shape& weight, const Conv2dOptions& o) {
  require_options(o);
  expect<ShapeError>(x.size() == 4, kName, "expected input [N,H,W,C], got {}", x);
  expect<ShapeError>(weight.size() == 4, kName, "expected weight [K,R,S,C/groups], got {}", weight);
  expect<ShapeError>(weight[1] >= 1 && weight[2] >= 1, kName,
                     "expected a window of at least 1x1, got weight {}", weight);
  expect<ShapeError>(weight[0] % o.groups == 0, kName,
                     "expected groups to divide output channels {}, got {} groups", weight[0],
                     o.groups);
  int64_t channels = 0;
  bool fits = !__builtin_mul_overflow(weight[3], o.groups, &channels);
  if (!fits || x[3] != channels)
    raise<ShapeError>(kName, "expected input channels {} to match weight {}{}, got input {}",
                      channels, weight, o.groups == 1 ? "" : fmt::format(" in {} groups", o.groups),
                      x);
  return {x[0], positions(x[1], weight[1], o.stride.h, o.padding.h, o.dilation.h, "height"),
          positions(x[2], weight[2], o.stride.w, o.padding.w, o.dilation.w, "width"), weight[0]};
}

Tensor conv2d(Tensor x, Tensor weight, Tensor bias, const Conv2dOptions& options, Where where) {
  return autograd::apply_one(std::make_shared<Conv2d>(options, false),
                             inputs_of(std::move(x), std::move(weight), std::move(bias)), where);
}

Conv2dWithStatistics conv2d_with_statistics(Tensor x, Tensor weight, Tensor bias,
                                            const Conv2dOptions& options, Where where) {
  // A rule, such as autocast's, may have the convolution in another dtype.
  if (is_low_precision(x.dtype()) || device_meant(x.device()).is_cuda() ||
      autograd::input_rule() != nullptr)
    return {conv2d(std::move(x), std::move(weight), std::move(bias), options, where), {}, {}};
  Tensors out = autograd::apply(std::make_shared<Conv2d>(options, true),
                                inputs_of(std::move(x), std::move(weight), std::move(bias)), where);
  return {std::move(out[0]), out[1].detach(), out[2].detach()};
}

}  // namespace brim
