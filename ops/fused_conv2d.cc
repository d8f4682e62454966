#include "brim/ops/fused_conv2d.h"

#include "brim/base/stand_in.h"
#include "brim/ops/activate.h"
#include "brim/ops/add.h"
#include "brim/ops/autocast.h"
#include "brim/ops/fused_library.h"
#include "brim/ops/op.h"
#include "brim/ops/product.h"
#include "brim/ops/reuse.h"

namespace brim {
namespace {

constexpr const char* kName = "fused_conv2d";

class FusedConv2d final : public autograd::Op {
 public:
  FusedConv2d(const kernel::FusedConv2dAttributes& attributes, bool with_bias, bool with_residual,
              Tensor packed)
      : attributes_(attributes),
        bias_(with_bias ? 2 : -1),
        residual_(with_residual ? 2 + with_bias : -1),
        packed_(std::move(packed)) {}
  const char* name() const override { return kName; }
  bool is_differentiable() const override { return false; }
  std::vector<int> overwrites() const override {
    return residual_ < 0 ? std::vector<int>() : std::vector{residual_};
  }

  Tensors forward(const Tensors& in, const autograd::ForwardContext& context) const override {
    require_floating(name(), in[0]);
    require_same_kind(name(), in[0], in[1]);
    const Shape shape = conv2d_shape(in[0].shape(), in[1].shape(), attributes_.window);
    const Tensor bias = optional(in, bias_), residual = optional(in, residual_);
    if (bias.defined()) require_bias(name(), in[1], bias, shape[3]);
    if (residual.defined()) require_residual(in[0], residual, shape);
    const Tensor x = contiguous(in[0]);
    Tensor y = output_over(in, context, shape, {.dtype = x.dtype(), .device = x.device()});
    launch(kernel::fused_conv2d, {x, contiguous(in[1]), bias, residual, packed_}, {y}, attributes_);
    return {y};
  }
  Tensors backward(autograd::BackwardCall&) const override {
    raise<InternalError>(name(), "has no gradient");
  }

  double flops(std::span<const autograd::TensorInfo> inputs,
               std::span<const autograd::TensorInfo> outputs) const override {
    return convolution_flops(outputs[0].shape, inputs[1].shape);
  }

 private:
  static Tensor optional(const Tensors& in, int i) {
    return i < 0 ? Tensor() : contiguous(in[static_cast<size_t>(i)]);
  }
  void require_residual(const Tensor& x, const Tensor& residual, const Shape& shape) const {
    require_same_kind(name(), x, residual);
    expect<ShapeError>(residual.shape() == shape, name(), "expected a residual of shape {}, got {}",
                       shape, residual.shape());
  }

  kernel::FusedConv2dAttributes attributes_;
  int bias_, residual_;  // their places among the inputs; -1 for none
  Tensor packed_;
};

Tensor composed(Tensor x, Tensor weight, Tensor bias, FusedConv2dOptions options, Where where) {
  Tensor y = conv2d(std::move(x), std::move(weight), std::move(bias), options.window, where);
  if (options.residual.defined()) y = add(std::move(y), std::move(options.residual), where);
  return activate(std::move(y), options.activation, where);
}

bool wants_gradient(const Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

}  // namespace

struct PackedWeight::Contents {
  const Tensor& of(const Tensor& x, const Tensor& weight, bool with_bias,
                   const FusedConv2dOptions& options);

 private:
  bool is_fresh(const Tensor& weight, const onednn::Primitive& wanted) const {
    return for_ != nullptr && of_.lock() == weight.storage() &&
           version_ == weight.storage()->version() && onednn::pack_alike(*for_, wanted);
  }

  Tensor bytes_;
  std::weak_ptr<Storage> of_;
  uint32_t version_ = 0;
  onednn::PrimitivePtr for_;
};

const Tensor& PackedWeight::Contents::of(const Tensor& x, const Tensor& weight, bool with_bias,
                                         const FusedConv2dOptions& options) {
  static const Tensor none;
  const bool with_residual = options.residual.defined();
  const Shape shape = conv2d_shape(x.shape(), weight.shape(), options.window);
  const onednn::PrimitivePtr library =
      fused_library(ConvShape(x.shape(), weight.shape(), shape, options.window), with_bias,
                    {.adds = with_residual});
  if (library == nullptr || onednn::packed_bytes(*library) == 0) return none;
  if (is_fresh(weight, *library)) return bytes_;
  for_ = nullptr;
  bytes_ = Tensor();  // before its successor: there need not be room for both
  memory::CategoryScope category(memory::Category::parameters);
  bytes_ = empty({onednn::packed_bytes(*library)}, {.dtype = Dtype::uint8});
  launch(kernel::pack_weight, Dtype::float32, {contiguous(weight)}, {bytes_},
         {x.shape(), options.window, with_bias, with_residual});
  of_ = weight.storage();
  version_ = weight.storage()->version();
  for_ = library;
  return bytes_;
}

PackedWeight::PackedWeight() = default;
PackedWeight::~PackedWeight() = default;

Tensor fused_conv2d(Tensor x, Tensor weight, Tensor bias, FusedConv2dOptions options, Where where) {
  const bool differentiates =
      autograd::grad_enabled() && (wants_gradient(x) || wants_gradient(weight) ||
                                   wants_gradient(bias) || wants_gradient(options.residual));
  expect<AutogradError>(!differentiates || options.composes, kName,
                        "is for inference: call conv2d, add and the activation where a "
                        "gradient is wanted");
  if (differentiates || !device_meant(x.device()).is_cpu())
    return composed(std::move(x), std::move(weight), std::move(bias), std::move(options), where);
  Tensor packed;
  const bool packs = options.packed != nullptr && x.device().is_cpu() &&
                     x.dtype() == Dtype::float32 && weight.dtype() == Dtype::float32 &&
                     weight.device().is_cpu() && autocast_dtype() == Dtype::float32;
  if (packs) {
    auto& contents = options.packed->contents_;
    if (contents == nullptr) contents = std::make_unique<PackedWeight::Contents>();
    packed = contents->of(x, weight, bias.defined(), options);
  }
  auto op = std::make_shared<FusedConv2d>(
      kernel::FusedConv2dAttributes{options.window, options.activation}, bias.defined(),
      options.residual.defined(), std::move(packed));
  Tensors inputs{std::move(x), std::move(weight)};
  if (bias.defined()) inputs.push_back(std::move(bias));
  if (options.residual.defined()) inputs.push_back(std::move(options.residual));
  return autograd::apply_one(std::move(op), std::move(inputs), where);
}

}  // namespace brim
