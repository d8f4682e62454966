// What an optimizer takes for gradients: those at its parameters, or the factors that it holds.
#include "brim/base/stand_in.h"
#include "brim/optim/optimizer.h"

namespace brim::optim {

std::vector<Optimizer::Update> Optimizer::take_gradients() {
  std::vector<Update> updates = std::move(updates_);  // empty, with the room of the last step
  updates.reserve(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& gradient = parameter(i).grad();
    if (factors_[i].a.defined()) {
      require_alone(parameters_[i]);
      updates.push_back({i, {Tensor(), factors_[i]}});
      continue;
    }
    if (!gradient.defined()) continue;
    require_match(parameters_[i], gradient);
    updates.push_back({i, {contiguous(gradient)}});
  }
  return updates;
}

// Beside factors there is no other gradient: who adds to it would have to know.
void Optimizer::require_alone(const nn::NamedTensor& parameter) const {
  expect<ValueError>(!parameter.tensor.grad().defined(), name_,
                     "'{}' has a gradient beside its factors", parameter.name);
}

void Optimizer::require_match(const nn::NamedTensor& parameter, const Tensor& gradient) const {
  const Tensor& tensor = parameter.tensor;
  expect<ShapeError>(gradient.shape() == tensor.shape(), name_,
                     "expected a gradient of shape {} for '{}', got {}", tensor.shape(),
                     parameter.name, gradient.shape());
  const bool narrow = tensor.dtype() == Dtype::float32 && gradient.dtype() == Dtype::bfloat16;
  expect<DtypeError>(gradient.dtype() == tensor.dtype() || narrow, name_,
                     "expected a gradient of {} for '{}', got {}", tensor.dtype(), parameter.name,
                     gradient.dtype());
  expect<DeviceError>(gradient.device() == tensor.device(), name_,
                      "expected a gradient on {} for '{}', got {}", tensor.device(), parameter.name,
                      gradient.device());
}

bool Optimizer::takes_factors(const Tensor& parameter) const {
  const auto found = numbers_.find(parameter.body());
  return found != numbers_.end() && !updated_[found->second] &&
         !factors_[found->second].a.defined() && reads_factors(found->second) &&
         parameter.dim() > 0 && parameter.numel() > 0 && parameter.dtype() != Dtype::bfloat16 &&
         !device_meant(parameter.device()).is_cuda();
}

void Optimizer::hold_factors(const Tensor& parameter, const autograd::GradientFactors& factors) {
  autograd::GradientFactors matrices = matrices_of(parameter, factors);
  const size_t i = numbers_.at(parameter.body());
  require_alone(parameters_[i]);
  factors_[i] = std::move(matrices);
}

// [M, K] and [M, N], where they match the parameter.
autograd::GradientFactors Optimizer::matrices_of(const Tensor& parameter,
                                                 const autograd::GradientFactors& factors) const {
  check(takes_factors(parameter), "factors are for an optimizer that takes them");
  const std::string& name = parameters_[numbers_.at(parameter.body())].name;
  const int64_t rows = parameter.shape()[0], columns = parameter.numel() / rows;
  const int64_t a = factors.a.numel(), b = factors.b.numel(), rank = a / rows;
  expect<ShapeError>(rank > 0 && a == rank * rows && b == rank * columns, name_,
                     "expected factors of a gradient of shape {} for '{}', got {} and {}",
                     parameter.shape(), name, factors.a.shape(), factors.b.shape());
  const auto matrix = [&](const Tensor& factor, int64_t size) -> Tensor {
    expect<DtypeError>(factor.dtype() == parameter.dtype() &&
                           factor.device() == parameter.device() && factor.is_contiguous(),
                       name_, "expected contiguous factors of {} on {} for '{}', got {} on {}",
                       parameter.dtype(), parameter.device(), name, factor.dtype(),
                       factor.device());
    return {factor.storage(), {{rank, size}, {size, 1}, factor.layout().offset, factor.dtype()}};
  };
  return {matrix(factors.a, rows), matrix(factors.b, columns)};
}

void Optimizer::zero_grad() noexcept {
  for (const nn::NamedTensor& parameter : parameters_) parameter.tensor.set_grad(Tensor());
  drop_factors();
}

void Optimizer::drop_factors() noexcept {
  for (autograd::GradientFactors& factors : factors_) factors = {};
}

}  // namespace brim::optim
