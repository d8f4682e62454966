#include "brim/optim/sgd.h"

#include <cmath>
#include <limits>

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
    : Optimizer("sgd", std::move(parameters)), options_(validated(options)) {
  for (size_t i = 0; i < this->parameters().size(); ++i) {
    bool decays = !options_.decays || options_.decays(this->parameters()[i]);
    weight_decay_.push_back(decays ? options_.weight_decay : 0);
    if (options_.momentum > 0) velocity_.push_back(make_state(i));
  }
}

void Sgd::update(size_t i, const Tensor& gradient) noexcept {
  launch(kernel::sgd, {gradient, scalars()},
         {parameter(i), velocity_.empty() ? Tensor() : velocity_[i]},
         {.momentum = options_.momentum,
          .weight_decay = weight_decay_[i],
          .nesterov = options_.nesterov});
}

std::vector<nn::NamedTensor> Sgd::named_state() const {
  std::vector<nn::NamedTensor> state;
  for (size_t i = 0; i < velocity_.size(); ++i)
    state.push_back({"momentum." + parameters()[i].name, velocity_[i]});
  return state;
}

}  // namespace brim::optim
