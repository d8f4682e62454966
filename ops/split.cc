#include "brim/ops/split.h"

#include <algorithm>

#include "brim/ops/op.h"

namespace brim {
namespace {

class Split final : public autograd::Op {
 public:
  Split(std::vector<int64_t> sizes, int axis) : sizes_(std::move(sizes)), axis_(axis) {}
  const char* name() const override { return "split"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    return parts_of(in[0]);
  }

  int visible_outputs() const override { return static_cast<int>(sizes_.size()); }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dx = empty(call.input_info(0).shape, call.input_info(0).options());
    Tensors parts = parts_of(dx);
    for (size_t i = 0; i < parts.size(); ++i)
      copy_into(parts[i], call.take_grad_view(static_cast<int>(i)));
    return {dx};
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo>) const override {
    return 0;
  }

 private:
  Tensors parts_of(const Tensor& x) const {
    Tensors parts;
    Layout layout = x.layout();
    for (int64_t size : sizes_) {
      layout.shape[axis_] = size;
      parts.emplace_back(x.storage(), layout);
      layout.offset += size * layout.strides[axis_];
    }
    return parts;
  }

  std::vector<int64_t> sizes_;
  int axis_;
};

Tensors run(Tensor x, std::vector<int64_t> sizes, int axis, Where where) {
  return autograd::apply(std::make_shared<Split>(std::move(sizes), axis), {std::move(x)}, where);
}

std::string listed(const std::vector<int64_t>& sizes) {
  std::string text;
  for (int64_t size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
  return "[" + text + "]";
}

}  // namespace

Tensors split(Tensor x, int64_t size, int axis, Where where) {
  axis = normalize_axis(axis, x.dim(), "split");
  expect<ValueError>(size >= 1, "split", "expected a size of at least 1, got {}", size);
  std::vector<int64_t> sizes;
  for (int64_t left = x.size(axis); left > 0 || sizes.empty(); left -= sizes.back())
    sizes.push_back(std::min(size, left));
  return run(std::move(x), std::move(sizes), axis, where);
}

Tensors split(Tensor x, std::vector<int64_t> sizes, int axis, Where where) {
  axis = normalize_axis(axis, x.dim(), "split");
  int64_t left = x.size(axis);
  bool fits = !sizes.empty();
  for (int64_t size : sizes) {
    fits = fits && size >= 0 && size <= left;
    left -= fits ? size : 0;
  }
  if (!fits || left != 0)
    raise<ShapeError>("split", "expected sizes that add up to {} along axis {} of {}, got {}",
                      x.size(axis), axis, x.shape(), listed(sizes));
  return run(std::move(x), std::move(sizes), axis, where);
}

}  // namespace brim
