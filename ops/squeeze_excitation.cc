#include "brim/ops/squeeze_excitation.h"

#include <algorithm>
#include <span>

#include "brim/autograd/input_rule.h"
#include "brim/base/stand_in.h"
#include "brim/ops/cast.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/global_avg_pool.h"
#include "brim/ops/hardsigmoid.h"
#include "brim/ops/mul.h"
#include "brim/ops/op.h"
#include "brim/ops/product.h"
#include "brim/ops/relu.h"
#include "brim/ops/reshape.h"
#include "brim/ops/reuse.h"

namespace brim {
namespace {

constexpr const char* kName = "squeeze_excitation";

// The inputs, and the outputs: y, and for backward what there is of each image.
constexpr int kX = 0, kWeight1 = 1, kBias1 = 2, kWeight2 = 3, kBias2 = 4;
constexpr int kY = 0, kMean = 1, kHidden = 2, kGate = 3;

/// [N,1,1,C], whose rows are those of x.
Shape pooled(const Shape& x, int64_t channels) { return {x[0], 1, 1, channels}; }

/// The gradient of hidden is on the way to these.
bool wants_hidden(const autograd::Needs& needs) {
  return needs[kX] || needs[kWeight1] || needs[kBias1];
}

/// All of one dtype, but that x may be lower.
void require_dtypes(const Tensor& x, std::span<const Tensor> others) {
  require_floating(kName, x);
  const bool mixed = is_low_precision(x.dtype()) && others[0].dtype() == Dtype::float32;
  for (const Tensor& other : others) require_same_kind(kName, mixed ? others[0] : x, other);
  expect<DeviceError>(x.device() == others[0].device(), kName, "expected one device, got {} and {}",
                      x.device(), others[0].device());
}

/// Else it is a composition. The kernel has weights of what x is computed in.
bool is_one_kernel(const Tensor& x, std::span<const Tensor> others) {
  const Dtype dtype = is_low_precision(x.dtype()) ? Dtype::float32 : x.dtype();
  return !device_meant(x.device()).is_cuda() &&
         std::ranges::all_of(others, [&](const Tensor& other) { return other.dtype() == dtype; });
}

class SqueezeExcitation final : public autograd::Op {
 public:
  const char* name() const override { return kName; }
  std::vector<int> anchors() const override { return {kMean, kHidden, kGate}; }
  bool is_one_pass() const override { return true; }
  bool is_rowwise() const override { return true; }
  // Of each image the averages are there before its first element is written.
  std::vector<int> overwrites() const override { return {kX}; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    const auto others = std::span(in).subspan(kWeight1);
    require_dtypes(in[kX], others);  // after what a rule for inputs may have cast
    expect<DtypeError>(is_one_kernel(in[kX], others), kName,
                       "expected weights of float32 for {} on a CPU, got {}", in[kX].dtype(),
                       in[kWeight1].dtype());
    Tensor x = contiguous(in[kX]);
    const TensorOptions options{.dtype = in[kWeight1].dtype(), .device = x.device()};
    Tensor mean = empty(pooled(x.shape(), x.size(3)), options),
           hidden = empty(pooled(x.shape(), in[kBias1].size(0)), options),
           gate = empty(mean.shape(), options);
    Tensor y = output_over(in, context, x);
    launch(kernel::squeeze_excitation, x.dtype(),
           {x, contiguous(in[kWeight1]), contiguous(in[kBias1]), contiguous(in[kWeight2]),
            contiguous(in[kBias2])},
           {y, mean, hidden, gate});
    if (!context.for_backward) return {y, Tensor(), Tensor(), Tensor()};
    return {y, mean, hidden, gate};
  }

  Tensors forward_again(const Tensors& in, const Tensors& known,
                        const autograd::ForwardContext& context) const override {
    if (!known[kGate].defined()) return forward(in, context);
    Tensor x = contiguous(in[kX]), y = output_over(in, context, x);
    launch(kernel::squeeze_excitation_scale, {x, known[kGate]}, {y});
    return {y, known[kMean], known[kHidden], known[kGate]};
  }

  autograd::Saves saves(const autograd::Needs& needs) const override {
    // Small, and with all anchors at hand rows of y can be made again.
    autograd::Saves saves{.inputs = {kX}, .outputs = {kMean, kHidden, kGate}};
    if (needs[kX]) saves.inputs.push_back(kWeight1);
    if (wants_hidden(needs)) saves.inputs.push_back(kWeight2);
    return saves;
  }

  Tensors backward(autograd::BackwardCall& call) const override;

  double flops(std::span<const autograd::TensorInfo> in,
               std::span<const autograd::TensorInfo>) const override {
    const Shape &x = in[kX].shape, &weight1 = in[kWeight1].shape, &weight2 = in[kWeight2].shape;
    const Shape hidden = pooled(x, weight1[0]), gate = pooled(x, x[3]);
    // Mean and scaling; the products and what is made of them.
    return 2 * static_cast<double>(numel(x)) + convolution_flops(hidden, weight1) +
           convolution_flops(gate, weight2) + static_cast<double>(numel(hidden) + numel(gate));
  }
};

// With P pixels, d2 = sum over pixels of dy * x where 0 < gate < 1, a sixth of it, and
// d1 = weight2^T d2 where hidden > 0:
//   dweight2 = sum over images of d2 hidden^T, dbias2 = sum of d2,
//   dweight1 = sum over images of d1 mean^T, dbias1 = sum of d1,
//   dx = dy * gate + weight1^T d1 / P.
Tensors SqueezeExcitation::backward(autograd::BackwardCall& call) const {
  autograd::Needs needs;
  for (int i = 0; i < call.inputs(); ++i) needs.push_back(call.needs(i));
  const Tensor x = contiguous(call.input(kX));
  Tensor weight1, weight2;
  if (needs[kX]) weight1 = contiguous(call.input(kWeight1));
  if (wants_hidden(needs)) weight2 = contiguous(call.input(kWeight2));

  Tensors grads(static_cast<size_t>(call.inputs()));
  for (int i : {kWeight1, kBias1, kWeight2, kBias2})
    if (call.needs(i))
      grads[static_cast<size_t>(i)] = empty(call.input_info(i).shape, call.input_info(i).options());
  Tensor dy = call.take_grad();
  if (needs[kX]) grads[kX] = reuse_or_empty(dy);
  launch(kernel::squeeze_excitation_backward, dy.dtype(),
         {dy, x, weight1, weight2, call.output(kMean), call.output(kHidden), call.output(kGate)},
         {grads[kX], grads[kWeight1], grads[kBias1], grads[kWeight2], grads[kBias2]});
  return grads;
}

void require_shapes(const Tensor& x, const Tensor& weight1, const Tensor& bias1,
                    const Tensor& weight2, const Tensor& bias2) {
  expect<ShapeError>(x.dim() == 4 && x.size(1) >= 1 && x.size(2) >= 1, kName,
                     "expected an input [N,H,W,C] with at least one pixel, got {}", x.shape());
  const int64_t channels = x.size(3);
  expect<ShapeError>(
      weight1.dim() == 4 && weight1.shape() == Shape{weight1.size(0), 1, 1, channels}, kName,
      "expected weight1 [S,1,1,{}] to match input {}, got {}", channels, x.shape(),
      weight1.shape());
  const int64_t squeezed = weight1.size(0);
  auto require = [](const Tensor& tensor, const Shape& shape, const char* what) {
    expect<ShapeError>(tensor.shape() == shape, kName, "expected {} of shape {}, got {}", what,
                       shape, tensor.shape());
  };
  require(bias1, {squeezed}, "bias1");
  require(weight2, {channels, 1, 1, squeezed}, "weight2");
  require(bias2, {channels}, "bias2");
}

Tensor composed(Tensor x, Tensor weight1, Tensor bias1, Tensor weight2, Tensor bias2, Where where) {
  const Shape shape = pooled(x.shape(), x.size(3));
  Tensor gate = reshape(global_avg_pool(x, where), shape, where);
  // A rule, such as autocast's, has dtypes of its own for the products.
  if (autograd::input_rule() == nullptr) gate = cast(std::move(gate), weight1.dtype(), where);
  gate = conv2d(std::move(gate), std::move(weight1), std::move(bias1), {}, where);
  gate = relu(std::move(gate), where);
  gate = conv2d(std::move(gate), std::move(weight2), std::move(bias2), {}, where);
  gate = hardsigmoid(std::move(gate), where);
  if (autograd::input_rule() == nullptr) gate = cast(std::move(gate), x.dtype(), where);
  return mul(std::move(x), std::move(gate), where);
}

}  // namespace

Tensor squeeze_excitation(Tensor x, Tensor weight1, Tensor bias1, Tensor weight2, Tensor bias2,
                          Where where) {
  require_floating(kName, x);
  require_shapes(x, weight1, bias1, weight2, bias2);
  Tensors in{std::move(x), std::move(weight1), std::move(bias1), std::move(weight2),
             std::move(bias2)};
  const auto others = std::span(in).subspan(kWeight1);
  if (autograd::input_rule() == nullptr) require_dtypes(in[kX], others);
  if (!is_one_kernel(in[kX], others))
    return composed(std::move(in[kX]), std::move(in[kWeight1]), std::move(in[kBias1]),
                    std::move(in[kWeight2]), std::move(in[kBias2]), where);
  return autograd::apply_one(std::make_shared<SqueezeExcitation>(), std::move(in), where);
}

}  // namespace brim
