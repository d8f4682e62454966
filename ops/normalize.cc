#include "brim/ops/normalize.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

class Normalize final : public autograd::Op {
 public:
  explicit Normalize(const NormalizeOptions& options) : options_(options) {}
  const char* name() const override { return "normalize"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    kernel::NormalizeAttributes attributes = attributes_for(in[0]);
    Tensor x = contiguous(in[0]);
    Tensor y = empty(x.shape(), {.dtype = options_.dtype, .device = x.device()});
    launch(kernel::normalize, {x}, {y}, attributes);
    return {y};
  }

  bool is_differentiable() const override { return false; }
  Tensors backward(autograd::BackwardCall&) const override {
    raise<InternalError>(name(), "has no gradient");
  }

 private:
  kernel::NormalizeAttributes attributes_for(const Tensor& x) const {
    const auto& [mean, std, dtype] = options_;
    expect<DtypeError>(x.dtype() == Dtype::uint8, name(), "expected uint8, got {}", x.dtype());
    expect<DtypeError>(is_floating(dtype), name(),
                       "expected a floating dtype for the result, got {}", dtype);
    expect<ShapeError>(x.dim() == 4, name(), "expected [N,H,W,C], got {}", x.shape());
    auto channels = static_cast<size_t>(x.shape().back());
    expect<ShapeError>(channels <= kernel::NormalizeAttributes::kMaxChannels, name(),
                       "expected at most {} channels, got {}",
                       int{kernel::NormalizeAttributes::kMaxChannels}, x.shape());
    expect<ShapeError>(mean.size() == channels && std.size() == channels, name(),
                       "expected {} means and deviations for {}, got {} and {}", channels,
                       x.shape(), mean.size(), std.size());
    kernel::NormalizeAttributes attributes;
    for (size_t c = 0; c < channels; ++c) {
      expect<ValueError>(std[c] > 0, name(), "expected deviations above 0, got {}", std[c]);
      attributes.scale[c] = 1 / (255.0 * std[c]);
      attributes.shift[c] = -static_cast<double>(mean[c]) / std[c];
    }
    return attributes;
  }

  NormalizeOptions options_;
};

}  // namespace

Tensor normalize(Tensor x, const NormalizeOptions& options, Where where) {
  return autograd::apply_one(std::make_shared<Normalize>(options), {std::move(x)}, where);
}

}  // namespace brim
