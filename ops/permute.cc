#include "brim/ops/permute.h"

#include <array>

#include "brim/ops/op.h"

namespace brim {
namespace {

class Permute final : public autograd::Op {
 public:
  explicit Permute(const std::vector<int>& axes) : axes_(axes) {}
  const char* name() const override { return "permute"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    auto from = sources(in[0].dim());
    Layout layout = in[0].layout();
    for (int k = 0; k < in[0].dim(); ++k) {
      layout.shape[k] = in[0].shape()[from[static_cast<size_t>(k)]];
      layout.strides[k] = in[0].strides()[from[static_cast<size_t>(k)]];
    }
    return {Tensor(in[0].storage(), layout)};
  }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dy = call.take_grad_view();
    auto from = sources(dy.dim());
    Layout layout = dy.layout();
    for (int k = 0; k < dy.dim(); ++k) {
      layout.shape[from[static_cast<size_t>(k)]] = dy.shape()[k];
      layout.strides[from[static_cast<size_t>(k)]] = dy.strides()[k];
    }
    return {Tensor(dy.storage(), layout)};
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo>) const override {
    return 0;
  }

 private:
  // Axis k of the result is axis sources[k] of x.
  std::array<int, Dims::kMax> sources(int rank) const {
    expect<ShapeError>(static_cast<int>(axes_.size()) == rank, name(),
                       "expected {} axes, one for each of x, got {}", rank, axes_.size());
    std::array<int, Dims::kMax> from{};
    std::array<bool, Dims::kMax> seen{};
    for (size_t k = 0; k < axes_.size(); ++k) {
      from[k] = normalize_axis(axes_[k], rank, name());
      bool& taken = seen[static_cast<size_t>(from[k])];
      expect<ShapeError>(!taken, name(), "axis {} is named twice", axes_[k]);
      taken = true;
    }
    return from;
  }

  std::vector<int> axes_;
};

}  // namespace

Tensor permute(Tensor x, const std::vector<int>& axes, Where where) {
  return autograd::apply_one(std::make_shared<Permute>(axes), {std::move(x)}, where);
}

}  // namespace brim
