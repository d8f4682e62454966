#include "brim/ops/embedding.h"

#include "brim/ops/op.h"

namespace brim {
namespace {

class Embedding final : public autograd::Op {
 public:
  explicit Embedding(const EmbeddingOptions& options) : options_(options) {}
  const char* name() const override { return "embedding"; }

  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    validate(in[0], in[1]);
    Tensor indices = contiguous(in[0]), weight = contiguous(in[1]);
    Shape shape = indices.shape();
    shape.push_back(weight.size(1));
    Tensor y = empty(shape, {.dtype = weight.dtype(), .device = weight.device()});
    launch(kernel::embedding, {indices, weight}, {y});
    return {y};
  }

  autograd::Saves saves(const autograd::Needs&) const override { return {.inputs = {0}}; }

  Tensors backward(autograd::BackwardCall& call) const override {
    Tensor dweight = empty(call.input_info(1).shape, call.input_info(1).options());
    launch(kernel::embedding_backward, {call.take_grad(), contiguous(call.input(0))}, {dweight},
           options_);
    return {Tensor(), dweight};
  }

  double flops(std::span<const autograd::TensorInfo>,
               std::span<const autograd::TensorInfo>) const override {
    return 0;
  }

 private:
  void validate(const Tensor& indices, const Tensor& weight) const {
    expect<DtypeError>(indices.dtype() == Dtype::int64 || indices.dtype() == Dtype::int32, name(),
                       "expected int64 or int32 indices, got {}", indices.dtype());
    require_floating(name(), weight);
    expect<DeviceError>(indices.device() == weight.device(), name(),
                        "expected one device, got indices on {} and weight on {}", indices.device(),
                        weight.device());
    expect<ShapeError>(weight.dim() == 2, name(), "expected weight [rows,width], got {}",
                       weight.shape());
    auto padding = options_.padding_index;
    expect<ValueError>(!padding || (*padding >= 0 && *padding < weight.size(0)), name(),
                       "expected a padding index in [0, {}), got {}", weight.size(0),
                       padding.value_or(0));
  }

  EmbeddingOptions options_;
};

}  // namespace

Tensor embedding(Tensor indices, Tensor weight, const EmbeddingOptions& options, Where where) {
  return autograd::apply_one(std::make_shared<Embedding>(options),
                             {std::move(indices), std::move(weight)}, where);
}

}  // namespace brim
