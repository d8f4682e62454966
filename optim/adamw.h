// Adam with decoupled weight decay, as PyTorch's AdamW computes it: Kingma and Ba, "Adam", ICLR
// 2015; Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019. The default of
// transformers and of many MobileNets; it needs little tuning of the rate, 1e-3 is a good start.
// It keeps two numbers for each parameter: where memory is short, SGD keeps one or none.
#pragma once

#include "brim/optim/optimizer.h"

namespace brim::optim {

struct AdamWOptions {
  double beta1 = 0.9;          ///< of the average of gradients; in [0, 1)
  double beta2 = 0.999;        ///< of the average of their squares; in [0, 1)
  double epsilon = 1e-8;       ///< added to the root of the squares; above 0, also in float32
  double weight_decay = 0.01;  ///< from 0; in proportion to the rate
  /// What m and v are kept in, as `SgdOptions::state`.
  Dtype state = Dtype::float32;
  uint64_t seed = 0;  ///< as `SgdOptions::seed`
  /// Parameters with a rate or decay of their own (optim/parameter_groups.h).
  std::vector<ParameterGroup> groups = {};
};

/// Per element, all in one pass, in update t (from 1):
///   g = gradient / loss_scale, clipped
///   p = p * (1 - rate * weight_decay)
///   m = m + (1 - beta1) * (g - m)                 m and v start at 0
///   v = beta2 * v + (1 - beta2) * g^2
///   p = p - rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
/// t counts the optimizer's updates, also for a parameter that had no gradient in one of them
/// (PyTorch then counts fewer for it). The factors are computed in double, sums fused (fma).
class AdamW final : public Optimizer {
 public:
  /// Throws `ValueError` naming an option that is out of range; what `Optimizer` throws.
  explicit AdamW(std::vector<nn::NamedTensor> parameters, const AdamWOptions& options = {});
  /// "exp_avg.<parameter>" (m) and "exp_avg_sq.<parameter>" (v).
  std::vector<nn::NamedTensor> named_state() const override;
  std::unique_ptr<Optimizer> like(std::vector<nn::NamedTensor> parameters,
                                  std::optional<Dtype> state = {}) const override {
    AdamWOptions options = options_;
    options.state = state.value_or(options.state);
    return std::make_unique<AdamW>(std::move(parameters), options);
  }

 private:
  void update(size_t i, const Gradient& gradient, const Tensor& square_sum) noexcept override;
  bool leaves_square_sums() const override { return true; }
  bool reads_factors(size_t i) const override {
    return exp_avg_[i].dtype() == parameter(i).dtype();
  }

  AdamWOptions options_;
  std::vector<Tensor> exp_avg_, exp_avg_sq_;
};

/// For the parameters of a model, or for some of them.
inline std::unique_ptr<Optimizer> adamw(const nn::Module& model, const AdamWOptions& options = {}) {
  return std::make_unique<AdamW>(model.named_parameters(), options);
}
inline std::unique_ptr<Optimizer> adamw(std::vector<nn::NamedTensor> parameters,
                                        const AdamWOptions& options = {}) {
  return std::make_unique<AdamW>(std::move(parameters), options);
}

}  // namespace brim::optim

namespace brim::kernel {

struct AdamWAttributes {
  double rate_factor = 1;  ///< of the rate in the scalars
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  RandomKey parameter_key, exp_avg_key, exp_avg_sq_key;  ///< of roundings to bfloat16
};
/// in: gradient or its factors, and step scalars, as `sgd` has them; out: parameter, m, v and, on
/// the CPU, what `square_sum` leaves (may be absent). Contiguous. Gradient, m and v may be bfloat16
/// for a parameter of float32 or bfloat16.
inline constexpr Kernel<AdamWAttributes> adamw{"adamw", /*updates=*/true};

}  // namespace brim::kernel
