#include "brim/ops/slice.h"

#include <algorithm>
#include <utility>

#include "brim/ops/op.h"

namespace brim {
namespace {

class Slice final : public autograd::Op {
 public:
  explicit Slice(std::vector<AxisSlice> slices) : slices_(std::move(slices)) {}
  const char* name() const override { return "slice"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    for (const AxisSlice& each : slices_)
      expect<ValueError>(each.range.step >= 1, name(), "expected a step of at least 1, got {}",
                         each.range.step);
    return {view_of(in[0])};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    if (Tensor sum = call.take_sum(0); sum.defined()) {
      accumulate_into(view_of(sum), call.take_grad_view());
      return {sum};
    }
    const autograd::TensorInfo& x = call.input_info(0);
    Tensor dx = zeros(x.shape, x.options());
    copy_into(view_of(dx), call.take_grad_view());
    return {dx};
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo>) const override {
    return 0;
  }

 private:
  Tensor view_of(const Tensor& x) const {
    Layout layout = x.layout();
    for (const AxisSlice& each : slices_) cut(layout, each);
    return Tensor(x.storage(), layout);
  }

  void cut(Layout& layout, const AxisSlice& slice) const {
    const int axis = normalize_axis(slice.axis, layout.shape.size(), name());
    const int64_t size = layout.shape[axis];
    auto position = [size](int64_t i) {
      return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size);
    };
    const SliceOptions& range = slice.range;
    const int64_t begin = position(range.begin), end = std::max(begin, position(range.end));
    // Written so that no step overflows.
    layout.shape[axis] = end == begin ? 0 : (end - begin - 1) / range.step + 1;
    layout.offset += begin * layout.strides[axis];
    if (layout.shape[axis] > 1) layout.strides[axis] *= range.step;
  }

  std::vector<AxisSlice> slices_;
};

}  // namespace

Tensor slice(Tensor x, int axis, SliceOptions options, Where where) {
  return slice(std::move(x), {{axis, options}}, where);
}

Tensor slice(Tensor x, std::vector<AxisSlice> slices, Where where) {
  return autograd::apply_one(std::make_shared<Slice>(std::move(slices)), {std::move(x)}, where);
}

}  // namespace brim
