#include "brim/ops/interpolate.h"

#include <cmath>

#include "brim/ops/op.h"

namespace brim {
namespace {

constexpr const char* kName = "interpolate";

bool has_size(const InterpolateOptions& o) { return o.size != Pair(0); }

InterpolateAxis axis_for(const InterpolateOptions& o, int64_t in, int64_t out, double scale) {
  auto from = static_cast<double>(in), to = static_cast<double>(out);
  if (o.align_corners) return {out > 1 ? from - 1 : 0, out > 1 ? to - 1 : 1, 0};
  double shift = o.mode == InterpolateMode::bilinear ? 0.5 : 0;
  return has_size(o) ? InterpolateAxis{from, to, shift} : InterpolateAxis{1, scale, shift};
}

int64_t scaled(int64_t size, double scale) {
  double result = std::floor(static_cast<double>(size) * scale);
  expect<ValueError>(result >= 1 && result <= 0x1p53, kName,
                     "expected a scale that gives at least one pixel, got {} for {}", scale, size);
  return static_cast<int64_t>(result);
}

class Interpolate final : public autograd::Op {
 public:
  explicit Interpolate(const InterpolateOptions& options) : options_(options) {}
  const char* name() const override { return kName; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    require_floating(name(), in[0]);
    Shape shape = result_shape(in[0].shape());
    Tensor x = contiguous(in[0]), y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
    launch(kernel::interpolate, {x}, {y}, interpolation(x.shape(), shape));
    return {y};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad();
    Tensor dx = empty(call.input_info(0).shape, call.input_info(0).options());
    launch(kernel::interpolate_backward, {dy}, {dx}, interpolation(dx.shape(), dy.shape()));
    return {dx};
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo> out) const override {
    int64_t each = options_.mode == InterpolateMode::bilinear ? 8 : 0;
    return static_cast<double>(each * numel(out[0].shape));
  }

 private:
  Shape result_shape(const Shape& x) const {
    expect<ShapeError>(x.size() == 4 && x[1] >= 1 && x[2] >= 1, name(),
                       "expected an input [N,H,W,C] with at least one pixel, got {}", x);
    if (has_size(options_)) return {x[0], options_.size.h, options_.size.w, x[3]};
    return {x[0], scaled(x[1], options_.scale.h), scaled(x[2], options_.scale.w), x[3]};
  }
  Interpolation interpolation(const Shape& x, const Shape& y) const {
    return {.h = axis_for(options_, x[1], y[1], options_.scale.h),
            .w = axis_for(options_, x[2], y[2], options_.scale.w),
            .mode = options_.mode};
  }

  InterpolateOptions options_;
};

}  // namespace

Tensor interpolate(Tensor x, const InterpolateOptions& options, Where where) {
  const auto& [size, scale, mode, align_corners] = options;
  bool has_scale = scale.h != 0 || scale.w != 0;
  expect<ValueError>(has_size(options) != has_scale, kName,
                     "expected a size or a scale, got size {} and scale [{},{}]", size, scale.h,
                     scale.w);
  expect<ValueError>(has_scale || (size.h >= 1 && size.w >= 1), kName,
                     "expected a size of at least 1, got {}", size);
  expect<ValueError>(!align_corners || mode == InterpolateMode::bilinear, kName,
                     "expected align_corners with bilinear alone");
  return autograd::apply_one(std::make_shared<Interpolate>(options), {std::move(x)}, where);
}

}  // namespace brim
