#include "brim/optim/adamw.h"

#include <cmath>
#include <limits>

#include "brim/optim/register_kernels.h"

namespace brim::optim {
namespace {

const AdamWOptions& validated(const AdamWOptions& options) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double below_one = std::nextafter(1.0, 0.0);
  require_in_range("adamw", "beta1", options.beta1, 0, below_one);
  require_in_range("adamw", "beta2", options.beta2, 0, below_one);
  // Zero, in float32 too, would divide 0 by 0 wherever a gradient has always been 0.
  require_in_range("adamw", "epsilon", options.epsilon, std::numeric_limits<float>::min(),
                   kInfinity);
  require_in_range("adamw", "weight decay", options.weight_decay, 0, kInfinity);
  return options;
}

}  // namespace

AdamW::AdamW(std::vector<nn::NamedTensor> parameters, const AdamWOptions& options)
    : Optimizer("adamw", std::move(parameters), validated(options).weight_decay, options.groups),
      options_(options) {
  require_kernel(kernel::adamw.name);
  for (size_t i = 0; i < this->parameters().size(); ++i) {
    exp_avg_.push_back(make_state(i, options_.state));
    exp_avg_sq_.push_back(make_state(i, options_.state));
  }
}

void AdamW::update(size_t i, const Gradient& gradient, const Tensor& square_sum) noexcept {
  launch(kernel::adamw, {gradient.whole, scalars(), gradient.factors.a, gradient.factors.b},
         {parameter(i), exp_avg_[i], exp_avg_sq_[i], square_sum},
         {.rate_factor = settings(i).rate_factor,
          .beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .epsilon = options_.epsilon,
          .weight_decay = settings(i).weight_decay,
          .parameter_key = rounding_key(options_.seed, "parameter", i),
          .exp_avg_key = rounding_key(options_.seed, "exp_avg", i),
          .exp_avg_sq_key = rounding_key(options_.seed, "exp_avg_sq", i)});
}

std::vector<nn::NamedTensor> AdamW::named_state() const {
  std::vector<nn::NamedTensor> state;
  for (size_t i = 0; i < exp_avg_.size(); ++i) {
    state.push_back({"exp_avg." + parameters()[i].name, exp_avg_[i]});
    state.push_back({"exp_avg_sq." + parameters()[i].name, exp_avg_sq_[i]});
  }
  return state;
}

}  // namespace brim::optim
