// A model whose weights and running statistics follow from a formula, so that PyTorch can have the
// same without a file: make_logits.py states it and does the same. Training steps have a formula of
// their own, in make_golden.py.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <string_view>

#include "brim/nn/models/registry.h"
#include "brim/tests/support/formula_numbers.h"

namespace brim::testing {

/// float32(offset + scale * s), of any floating dtype.
inline void set_by_formula(std::string_view key, const Tensor& tensor, double offset,
                           double scale) {
  std::vector<double> numbers = formula_numbers(key, tensor.numel());
  std::vector<float> values(numbers.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(offset + scale * numbers[i]);
  copy_into(tensor, from_vector(values, tensor.shape()));
}

/// In evaluation mode.
inline std::unique_ptr<nn::Module> formula_model(const std::string& name, int64_t classes) {
  auto model = nn::make_model(name, {.classes = classes, .seed = {}});
  model->for_each_slot([](const std::string& key, const nn::Module::Slot& slot) {
    const Tensor& tensor = *slot.tensor;
    if (key.ends_with("running_var")) return set_by_formula(key, tensor, 1, 0.5);
    if (!key.ends_with("weight")) return set_by_formula(key, tensor, 0, 0.1);
    if (tensor.dim() == 1) return set_by_formula(key, tensor, 1, 0.1);
    auto fan_in = static_cast<double>(tensor.numel() / tensor.size(0));
    set_by_formula(key, tensor, 0, std::sqrt(6 / fan_in));
  });
  model->eval();
  return model;
}

}  // namespace brim::testing
