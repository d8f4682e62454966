// Stochastic gradient descent with momentum, as PyTorch computes it: Sutskever et al., "On the
// importance of initialization and momentum in deep learning", ICML 2013, with the rate outside the
// momentum.
#pragma once

#include "brim/optim/optimizer.h"

namespace brim::optim {

struct SgdOptions {
  double momentum = 0;  ///< in [0, 1)
  bool nesterov = false;
  double weight_decay = 0;  ///< from 0; added to the gradient, as L2 regularisation
  /// What v is kept in: float32, or bfloat16, which is rounded stochastically
  /// (optim/stochastic_rounding.h); float64 for parameters of float64 in any case.
  Dtype state = Dtype::float32;
  uint64_t seed = 0;  ///< of the roundings, of v and of parameters of bfloat16
  /// Parameters with a rate or decay of their own (optim/parameter_groups.h).
  std::vector<ParameterGroup> groups = {};
};

/// Per element, all in one pass:
///   g = gradient / loss_scale + weight_decay * p
///   v = momentum * v + g          v starts at 0, so the first v is g
///   p = p - rate * (nesterov ? g + momentum * v : v)
/// Without momentum there is no v. Each product is added without rounding in between (fma).
/// Parameters of bfloat16 are computed in float32 and rounded stochastically.
class Sgd final : public Optimizer {
 public:
  /// Throws `ValueError` naming an option that is out of range, and for Nesterov without momentum;
  /// what `Optimizer` throws.
  explicit Sgd(std::vector<nn::NamedTensor> parameters, const SgdOptions& options = {});
  /// "momentum.<parameter>".
  std::vector<nn::NamedTensor> named_state() const override;
  std::unique_ptr<Optimizer> like(std::vector<nn::NamedTensor> parameters,
                                  std::optional<Dtype> state = {}) const override {
    SgdOptions options = options_;
    options.state = state.value_or(options.state);
    return std::make_unique<Sgd>(std::move(parameters), options);
  }

 private:
  void update(size_t i, const Gradient& gradient, const Tensor& square_sum) noexcept override;
  bool leaves_square_sums() const override { return true; }
  bool reads_factors(size_t i) const override {
    return velocity_.empty() || velocity_[i].dtype() == parameter(i).dtype();
  }

  SgdOptions options_;
  std::vector<Tensor> velocity_;  // empty without momentum
};

/// For the parameters of a model, or for some of them.
inline std::unique_ptr<Optimizer> sgd(const nn::Module& model, const SgdOptions& options = {}) {
  return std::make_unique<Sgd>(model.named_parameters(), options);
}
inline std::unique_ptr<Optimizer> sgd(std::vector<nn::NamedTensor> parameters,
                                      const SgdOptions& options = {}) {
  return std::make_unique<Sgd>(std::move(parameters), options);
}

}  // namespace brim::optim

namespace brim::kernel {

struct SgdAttributes {
  double rate_factor = 1;  ///< of the rate in the scalars
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  RandomKey parameter_key, momentum_key;  ///< of roundings to bfloat16
};
/// in: gradient, step scalars, and on the CPU in place of the gradient its factors
/// (autograd/gradient_factors.h), where nothing is bfloat16; out: parameter, v (absent without
/// momentum) and, on the CPU, what `square_sum` leaves (may be absent). Contiguous. Gradient and v
/// may be bfloat16 for a parameter of float32 or bfloat16.
inline constexpr Kernel<SgdAttributes> sgd{"sgd", /*updates=*/true};

}  // namespace brim::kernel
