// One optimizer made of several, each for some of the parameters: SGD for convolutions and AdamW
// for a head. What is prepared, clipped, judged and undone is the update as a whole.
//
//   auto optimizer = optim::combine(
//       {{optim::sgd(model.named_parameters("body"), {.momentum = 0.9})},
//        {optim::adamw(model.named_parameters("head")), /*rate_factor=*/0.1}});
#pragma once

#include <memory>
#include <vector>

#include "brim/optim/optimizer.h"

namespace brim::optim {

struct OptimizerPart {
  std::shared_ptr<Optimizer> optimizer;
  double rate_factor = 1;  ///< of the update's rate, over those of its groups; from 0
};

class Combined final : public Optimizer {
 public:
  /// Throws `ValueError` for no parts, a parameter that two of them have, a factor out of range,
  /// and parts that have made updates; what `Optimizer` throws.
  explicit Combined(std::vector<OptimizerPart> parts);
  /// That of all parts.
  std::vector<nn::NamedTensor> named_state() const override;
  std::unique_ptr<Optimizer> like(std::vector<nn::NamedTensor> parameters,
                                  std::optional<Dtype> state = {}) const override;

 private:
  void update(size_t i, const Gradient& gradient, const Tensor& square_sum) noexcept override;
  bool leaves_square_sums() const override;
  bool reads_factors(size_t i) const override;

  std::vector<OptimizerPart> parts_;
  struct Place {
    Optimizer* part;
    size_t parameter;  // of the part's
  };
  std::vector<Place> places_;  // of each parameter
};

std::unique_ptr<Optimizer> combine(std::vector<OptimizerPart> parts);

}  // namespace brim::optim
