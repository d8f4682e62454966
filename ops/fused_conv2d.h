// Convolution for inference: bias, residual and activation are applied while the result is written,
// and the weight can be kept in the order that the kernel reads. What `nn::fold_batch_norms` makes
// of a convolution and its batch norm. In training call `conv2d`, `add` and the activation one
// after another: the kernel has no gradient.
#pragma once

#include <memory>

#include "brim/ops/activation.h"
#include "brim/ops/conv2d.h"

namespace brim {

struct FusedConv2dOptions;

/// A weight brought once into the order that a library wants, in a tensor of category parameters.
/// Belongs to one convolution, and is made again when the weight is another or was written to, or
/// when sizes or threads want another order. Not for two threads at a time.
class PackedWeight {
 public:
  PackedWeight();
  ~PackedWeight();
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

 private:
  friend Tensor fused_conv2d(Tensor, Tensor, Tensor, FusedConv2dOptions, Where);
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

struct FusedConv2dOptions {
  Conv2dOptions window = {};
  Tensor residual = {};  ///< added before the activation; of the result's shape, or undefined
  Activation activation = Activation::none;
  PackedWeight* packed = nullptr;  ///< where the weight is kept, if it is
  /// Where a gradient is wanted: `conv2d`, `add` and the activation, instead of an error.
  bool composes = false;
};

/// y = activation(conv2d(x, weight, bias, window) + residual).
///
/// Of float32 and float64 on a CPU one kernel does all of it, halves are widened to float32; on a
/// GPU it is `conv2d`, `add` and the activation. The result may be written over the residual. Only
/// oneDNN's convolutions of float32 pack the weight. Throws what `conv2d` throws, `ShapeError` for
/// a residual of another shape, and `AutogradError` where a gradient is wanted and it may not be
/// composed of others.
Tensor fused_conv2d(Tensor x, Tensor weight, Tensor bias, FusedConv2dOptions options = {},
                    Where where = Where::current());

namespace kernel {

struct FusedConv2dAttributes {
  Conv2dOptions window;
  Activation activation = Activation::none;
};
/// in: x, weight, bias, residual, packed weight, of which all but the first two may be absent;
/// out: y, which may be the residual. Contiguous.
inline constexpr Kernel<FusedConv2dAttributes> fused_conv2d{"fused_conv2d"};

struct PackWeightAttributes {
  Shape x;  ///< that of the convolution
  Conv2dOptions window;
  bool with_bias = false, with_residual = false;
};
/// in: weight; out: its bytes in the order that the library wants for these sizes.
inline constexpr Kernel<PackWeightAttributes> pack_weight{"pack_weight"};

}  // namespace kernel

}  // namespace brim
