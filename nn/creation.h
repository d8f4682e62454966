// Where the parameters of new modules live, and of which type they are: a scope, so that a model's
// constructors need not hand a device and a dtype to every layer.
//
//   nn::CreationScope on_meta({.device = Device::meta()});
//   Net net;  // shapes without bytes
#pragma once

#include <memory>
#include <utility>

#include "brim/core/tensor.h"

namespace brim::nn {

/// What parameters and buffers of modules made on this thread get: float32 on the CPU unless a
/// scope says otherwise.
const TensorOptions& creation_options();
/// The type that one of this shape has where modules are of `dtype`. Of bfloat16 are parameters of
/// two dimensions or more, the weights of products and embeddings. Those of one, of norms and
/// biases, are a thousandth of the bytes, and running statistics would stand still; they stay
/// float32.
Dtype slot_dtype(Dtype dtype, const Shape& shape, bool is_parameter);

/// Sets it until the scope ends. Throws `DtypeError` for anything but float32, float64 and bfloat16.
/// Modules of bfloat16 run in an `Autocast` of it (ops/autocast.h). Mixed precision, which changes
/// less, keeps parameters in float32 and casts them in a step.
class CreationScope {
 public:
  explicit CreationScope(const TensorOptions& options);
  ~CreationScope();
  CreationScope(const CreationScope&) = delete;
  CreationScope& operator=(const CreationScope&) = delete;

 private:
  TensorOptions before_;
};

/// A module of type M made with these options: `make<Net>({.device = Device::meta()}, 10)`.
template <class M, class... Args>
std::unique_ptr<M> make(const TensorOptions& options, Args&&... args) {
  CreationScope scope(options);
  return std::make_unique<M>(std::forward<Args>(args)...);
}

}  // namespace brim::nn
