#include "brim/optim/combined.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace brim::optim {
namespace {

constexpr const char* kName = "combined";

std::vector<nn::NamedTensor> parameters_of(const std::vector<OptimizerPart>& parts) {
  expect<ValueError>(!parts.empty(), kName, "expected an optimizer, got none");
  std::vector<nn::NamedTensor> all;
  for (const OptimizerPart& part : parts) {
    expect<ValueError>(part.optimizer != nullptr, kName, "a part has no optimizer");
    expect<ValueError>(part.optimizer->steps() == 0, kName,
                       "expected parts that have made no update, got one that made {}",
                       part.optimizer->steps());
    require_in_range(kName, "rate factor", part.rate_factor, 0,
                     std::numeric_limits<double>::infinity());
    const std::vector<nn::NamedTensor>& own = part.optimizer->parameters();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace

Combined::Combined(std::vector<OptimizerPart> parts)
    : Optimizer(kName, parameters_of(parts), /*weight_decay=*/0, {}), parts_(std::move(parts)) {
  for (const auto& [optimizer, rate_factor] : parts_) {
    optimizer->scalars_ = scalars_;  // what its kernels read is written here
    for (ParameterSettings& settings : optimizer->settings_) settings.rate_factor *= rate_factor;
    for (size_t i = 0; i < optimizer->parameters().size(); ++i)
      places_.push_back({optimizer.get(), i});
  }
}

void Combined::update(size_t i, const Gradient& gradient, const Tensor& square_sum) noexcept {
  places_[i].part->update(places_[i].parameter, gradient, square_sum);
}

bool Combined::leaves_square_sums() const {
  return std::ranges::all_of(
      parts_, [](const OptimizerPart& part) { return part.optimizer->leaves_square_sums(); });
}

bool Combined::reads_factors(size_t i) const {
  return places_[i].part->reads_factors(places_[i].parameter);
}

std::vector<nn::NamedTensor> Combined::named_state() const {
  std::vector<nn::NamedTensor> all;
  for (const OptimizerPart& part : parts_)
    for (nn::NamedTensor& state : part.optimizer->named_state()) all.push_back(std::move(state));
  return all;
}

std::unique_ptr<Optimizer> Combined::like(std::vector<nn::NamedTensor> parameters,
                                          std::optional<Dtype> state) const {
  std::vector<OptimizerPart> parts;
  for (const OptimizerPart& part : parts_) {
    std::vector<nn::NamedTensor> own;
    for (const nn::NamedTensor& mine : part.optimizer->parameters())
      for (const nn::NamedTensor& given : parameters)
        if (given.name == mine.name) own.push_back(given);
    parts.push_back({part.optimizer->like(std::move(own), state), part.rate_factor});
    if (parts.back().optimizer == nullptr) return nullptr;
  }
  return std::make_unique<Combined>(std::move(parts));
}

std::unique_ptr<Optimizer> combine(std::vector<OptimizerPart> parts) {
  return std::make_unique<Combined>(std::move(parts));
}

}  // namespace brim::optim
