// The training steps that make_golden.py describes, for tests that hold them against PyTorch's.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "brim/nn/models/registry.h"
#include "brim/ops/cross_entropy.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/formula_numbers.h"
#include "brim/train/train_step.h"

namespace brim::testing {

using Values = std::vector<double>;

inline Values golden_values(const std::string& key, double offset, double scale, int64_t count) {
  Values values = formula_numbers(key, count);
  for (double& value : values) value = static_cast<float>(offset + scale * value);
  return values;
}

inline void assign(const Tensor& to, const Values& values) {
  copy_into(to, from_vector(values, to.shape()));
}

inline nlohmann::json load_golden(const std::string& model) {
  std::ifstream file("tests/golden/" + model + ".json");
  REQUIRE(file.is_open());
  return nlohmann::json::parse(file);
}

struct Result {
  Values losses;
  double eval_loss = 0;
  std::map<std::string, Values> gradients;  // of the first step
  Values norms;                             // of all gradients, in each step
};

inline std::unique_ptr<optim::Optimizer> optimizer_for(const nlohmann::json& golden,
                                                       const nn::Module& model) {
  double decay = golden["weight_decay"];
  if (golden.value("optimizer", "sgd") == "adamw")
    return std::make_unique<optim::AdamW>(model.named_parameters(),
                                          optim::AdamWOptions{.weight_decay = decay});
  return std::make_unique<optim::Sgd>(
      model.named_parameters(),
      optim::SgdOptions{.momentum = golden["momentum"], .weight_decay = decay});
}

/// In `dtype`; forward in `precision` where that is lower.
inline Result train(const nlohmann::json& golden, Dtype dtype, Dtype precision = Dtype::float32) {
  int64_t classes = golden["classes"], batch = golden["batch"], size = golden["size"];
  auto model = nn::make_model(golden["model"],
                              {.classes = classes, .seed = 0, .dtype = dtype, .dropout = 0.0});
  for (const nlohmann::json& tensor : golden["tensors"]) {
    Tensor parameter = model->tensor(tensor["name"].get<std::string>());
    REQUIRE(to_string(parameter.shape()) == [&] {
      Shape shape;
      for (int64_t n : tensor["shape"]) shape.push_back(n);
      return to_string(shape);
    }());
    assign(parameter,
           golden_values(tensor["key"], tensor["offset"], tensor["scale"], parameter.numel()));
  }
  REQUIRE(model->named_parameters().size() == golden["tensors"].size());
  Tensor images = empty({batch, size, size, 3}, {.dtype = dtype});
  assign(images, golden_values("input", 0, 1, images.numel()));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < batch; ++i) labels.push_back((i * 37 + 11) % classes);
  auto loss = [&] { return cross_entropy((*model)(images), from_vector(labels, {batch})); };

  auto optimizer = optimizer_for(golden, *model);
  TrainStep step(*model, *optimizer,
                 {.clip = {.norm = golden.value("clip_norm", optim::ClipOptions::kNone)},
                  .precision = precision});
  Result result;
  for (int i = 0; i < golden["steps"].get<int>(); ++i) {
    step.begin();
    result.losses.push_back(step.micro_step(loss));
    if (i == 0)
      for (const auto& parameter : model->named_parameters())
        result.gradients[parameter.name] = parameter.tensor.grad().to_vector<double>();
    step.prepare(golden["lr"]);
    result.norms.push_back(optimizer->gradient_norm().value());
    step.commit();
  }
  autograd::NoGradScope no_grad;
  model->eval();
  result.eval_loss = loss().item<double>();
  return result;
}

/// Of all differences but the `without` largest.
inline double rms_difference(const Values& a, const Values& b, size_t without = 0) {
  Values squares(a.size());
  for (size_t i = 0; i < a.size(); ++i) squares[i] = (a[i] - b[i]) * (a[i] - b[i]);
  std::ranges::sort(squares);
  squares.resize(a.size() - without);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0) /
                   static_cast<double>(squares.size()));
}

}  // namespace brim::testing
