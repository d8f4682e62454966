// Convolution without bias, batch norm and activation: what mobile models are made of. Named as
// torchvision's Conv2dNormActivation: the convolution is "0", the norm "1". A shortcut is given to
// the call, which adds it before the activation.
#pragma once

#include "brim/nn/batch_norm2d.h"
#include "brim/nn/conv2d.h"

namespace brim::nn {

struct ConvBnOptions {
  Pair kernel = 1;  ///< odd; padded so that stride 1 keeps the image's size
  Pair stride = 1;
  int64_t groups = 1;
  Activation activation = Activation::relu;
  BatchNorm2dOptions norm = {};
  Init weight_init = ConvOptions{}.weight_init;
};

class ConvBn final : public Module {
 public:
  ConvBn(int64_t in, int64_t out, const ConvBnOptions& options)
      : conv(in, out,
             {.kernel = options.kernel,
              .stride = options.stride,
              .padding = {(options.kernel.h - 1) / 2, (options.kernel.w - 1) / 2},
              .groups = options.groups,
              .bias = false,
              .weight_init = options.weight_init}),
        bn(out, options.norm),
        activation_(options.activation) {
    register_modules({{"0", conv}, {"1", bn}});
  }
  using Module::operator();
  /// With a residual, which may be undefined.
  Tensor operator()(Tensor x, Tensor residual, Where where = Where::current()) {
    return call(where, [&] { return run(std::move(x), std::move(residual)); });
  }
  Tensor operator()(PendingNorm x, Where where = Where::current()) {
    if (is_bypassed()) return std::move(x).apply();
    return (*this)(std::move(x), Tensor(), where);
  }
  Tensor operator()(PendingNorm x, Tensor residual, Where where = Where::current()) {
    return call(where, [&] { return run(std::move(x), std::move(residual)); });
  }
  /// With the norm left to the convolution that comes next.
  PendingNorm pending(Tensor x, Where where = Where::current()) {
    return pending(PendingNorm(std::move(x)), where);
  }
  PendingNorm pending(PendingNorm x, Where where = Where::current()) {
    if (is_bypassed()) return x;
    return call(where,
                [&] { return bn.pending(conv.for_norm(std::move(x), where), activation_, where); });
  }
  Tensor forward(Tensor x) override { return run(std::move(x), {}); }
  std::string_view kind() const override { return "ConvBn"; }

  Conv2d conv;
  BatchNorm2d bn;

 private:
  template <class Input>
  Tensor run(Input x, Tensor residual) {
    return bn(conv.for_norm(std::move(x), where()),
              {.residual = std::move(residual), .activation = activation_}, where());
  }

  Activation activation_;
};

}  // namespace brim::nn
