#include "brim/optim/sgd.h"

#include <cmath>
#include <limits>

#include "brim/optim/register_kernels.h"

namespace brim::optim {
namespace {

const SgdOptions& validated(const SgdOptions& options) {
  require_in_range("sgd", "momentum", options.momentum, 0, std::nextafter(1.0, 0.0));
  require_in_range("sgd", "weight decay", options.weight_decay, 0,
                   std::numeric_limits<double>::infinity());
  expect<ValueError>(!options.nesterov || options.momentum > 0, "sgd",
                     "expected a positive momentum for Nesterov's, got {}", options.momentum);
  return options;
}

}  // namespace

Sgd::Sgd(std::vector<nn::NamedTensor> parameters, const SgdOptions& options)
    : Optimizer("sgd", std::move(parameters), validated(options).weight_decay, options.groups),
      options_(options) {
  require_kernel(kernel::sgd.name);
  if (options_.momentum == 0) return;
  for (size_t i = 0; i < this->parameters().size(); ++i)
    velocity_.push_back(make_state(i, options_.state));
}

void Sgd::update(size_t i, const Gradient& gradient, const Tensor& square_sum) noexcept {
  launch(kernel::sgd, {gradient.whole, scalars(), gradient.factors.a, gradient.factors.b},
         {parameter(i), velocity_.empty() ? Tensor() : velocity_[i], square_sum},
         {.rate_factor = settings(i).rate_factor,
          .momentum = options_.momentum,
          .weight_decay = settings(i).weight_decay,
          .nesterov = options_.nesterov,
          .parameter_key = rounding_key(options_.seed, "parameter", i),
          .momentum_key = rounding_key(options_.seed, "momentum", i)});
}

std::vector<nn::NamedTensor> Sgd::named_state() const {
  std::vector<nn::NamedTensor> state;
  for (size_t i = 0; i < velocity_.size(); ++i)
    state.push_back({"momentum." + parameters()[i].name, velocity_[i]});
  return state;
}

}  // namespace brim::optim
