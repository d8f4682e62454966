// What make_names.py found in PyTorch's model of a name, read from golden/, and the comparison with
// ours: names, shapes, and results and a gradient from weights that follow from a formula. That
// script describes file and formula. For trained steps see tests/golden.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "brim/autograd/backward.h"
#include "brim/nn/module.h"
#include "brim/ops/cross_entropy.h"
#include "brim/tests/support/formula_numbers.h"

namespace brim::testing {

/// What make_names.py wrote of a model.
struct Golden {
  std::vector<std::string> parameters, buffers;
  std::vector<std::pair<int64_t, std::string>> outputs;  ///< image size, shape
  std::vector<std::pair<size_t, double>> logits;         ///< element, value
  std::vector<std::pair<size_t, double>> gradient;       ///< of the first parameter
  /// A size of images that the model takes, and that takes little time.
  int64_t small_size() const { return outputs.back().first; }
};

inline Golden read_golden(const std::string& model) {
  std::ifstream file("tests/nn/golden/" + model + ".txt");
  REQUIRE_MESSAGE(file.good(), "no golden file for " << model);
  Golden golden;
  std::string kind, name, shape;
  while (file >> kind >> name >> shape) {
    if (kind == "parameter") golden.parameters.push_back(name + " " + shape);
    if (kind == "buffer") golden.buffers.push_back(name + " " + shape);
    if (kind == "outputs") golden.outputs.emplace_back(std::stoll(name), shape);
    if (kind == "logit") golden.logits.emplace_back(std::stoull(name), std::stod(shape));
    if (kind == "gradient") golden.gradient.emplace_back(std::stoull(name), std::stod(shape));
  }
  return golden;
}

inline std::vector<std::string> listed(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : tensors)
    lines.push_back(name + " " + to_string(tensor.shape()));
  return lines;
}

inline void set_numbers(const std::string& name, const Tensor& tensor) {
  std::vector<double> values = formula_numbers(name, tensor.numel());
  double offset = 0, scale = 0.1;
  if (tensor.dim() > 1) {
    scale =
        std::sqrt(6.0 * static_cast<double>(tensor.size(0)) / static_cast<double>(tensor.numel()));
  } else if (name.ends_with("weight")) {
    offset = 1;
  }
  for (double& v : values) v = offset + scale * v;
  copy_into(tensor, from_vector<double>(values, tensor.shape()));
}

inline void set_numbers(nn::Module& model) {
  for (const auto& [parameter, tensor] : model.named_parameters()) set_numbers(parameter, tensor);
}

inline void check_near(const std::vector<double>& values,
                       const std::vector<std::pair<size_t, double>>& golden, double bound) {
  double most = 0;
  for (double v : values) most = std::max(most, std::abs(v));
  for (const auto& [i, value] : golden) {
    CAPTURE(i);
    CHECK(std::abs(values[i] - value) < bound * most);
  }
}

inline Tensor formula_images(int64_t size) {
  return from_vector<double>(formula_numbers("input", 2 * size * size * 3), {2, size, size, 3});
}

// Sums of up to 4608 terms, each off by half an epsilon of the largest at worst, through at most 53
// layers (120 in DenseNet, of a fourth of the terms) that keep errors in proportion:
// 4608 * 53 * 1.1e-16.
inline constexpr double kResultBound = 2.7e-11;

inline void check_results(nn::Module& model, const Golden& golden) {
  set_numbers(model);
  autograd::GradModeScope mode(!golden.gradient.empty());
  Tensor logits = model(formula_images(golden.small_size()));
  check_near(logits.to_vector<double>(), golden.logits, kResultBound);
  if (golden.gradient.empty()) return;
  int64_t classes = logits.size(-1), rows = logits.numel() / classes;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < rows; ++i) labels.push_back((i * 37 + 11) % classes);
  Shape places;
  for (int axis = 0; axis + 1 < logits.dim(); ++axis) places.push_back(logits.size(axis));
  backward(cross_entropy(std::move(logits), from_vector(labels, places)));
  // The bound of tests/golden: each batch norm's backward widens errors on top.
  check_near(model.named_parameters().front().tensor.grad().to_vector<double>(), golden.gradient,
             1e-9);
}

}  // namespace brim::testing
