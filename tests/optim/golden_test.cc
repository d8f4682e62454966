// 25 updates of each optimizer against PyTorch's, from equal numbers: make_golden.py describes
// them. In float64 every parameter must agree to the roundings made; in float32 the error may be
// twice PyTorch's own.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/formula_numbers.h"

using namespace brim;
using nlohmann::json;

namespace {

using Values = std::vector<double>;

Tensor numbers(const std::string& key, const Shape& shape, double scale, Dtype dtype) {
  Values values = testing::formula_numbers(key, numel(shape));
  for (double& value : values) value = static_cast<float>(scale * value);
  return convert_to(from_vector(values, shape), {.dtype = dtype});
}

Shape shape_of(const json& parameter) {
  Shape shape;
  for (int64_t size : parameter["shape"]) shape.push_back(size);
  return shape;
}

std::vector<optim::ParameterGroup> groups_of(const json& c) {
  std::vector<optim::ParameterGroup> groups;
  for (const json& group : c.value("groups", json::array())) {
    groups.push_back({.name = group["prefixes"][0],
                      .prefixes = group["prefixes"],
                      .rate_factor = group.value("rate_factor", 1.0)});
    if (group.contains("weight_decay")) groups.back().weight_decay = group["weight_decay"];
  }
  return groups;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const json& c,
                                                 std::vector<nn::NamedTensor> parameters) {
  if (c["optimizer"] == "adamw")
    return std::make_unique<optim::AdamW>(
        std::move(parameters), optim::AdamWOptions{.beta1 = c.value("beta1", 0.9),
                                                   .beta2 = c.value("beta2", 0.999),
                                                   .epsilon = c.value("epsilon", 1e-8),
                                                   .weight_decay = c.value("weight_decay", 0.01),
                                                   .groups = groups_of(c)});
  return std::make_unique<optim::Sgd>(
      std::move(parameters), optim::SgdOptions{.momentum = c.value("momentum", 0.0),
                                               .nesterov = c.value("nesterov", false),
                                               .weight_decay = c.value("weight_decay", 0.0),
                                               .groups = groups_of(c)});
}

struct Result {
  Values parameters, norms;
};

Result train(const json& c, int updates, Dtype dtype) {
  std::vector<nn::NamedTensor> parameters;
  for (const json& p : c["parameters"]) {
    std::string name = p["name"];
    parameters.push_back({name, numbers(name, shape_of(p), 1, dtype).set_requires_grad()});
  }
  auto optimizer = make_optimizer(c, parameters);
  optim::ClipOptions clip{.norm = c.value("clip_norm", optim::ClipOptions::kNone),
                          .value = c.value("clip_value", optim::ClipOptions::kNone)};
  Result result;
  for (int t = 0; t < updates; ++t) {
    for (const auto& [name, tensor] : parameters)
      tensor.set_grad(
          numbers(name + "@" + std::to_string(t), tensor.shape(), t % 4 == 3 ? 10 : 1, dtype));
    optimizer->step({.rate = c["lr"].get<double>() * (1 + t % 3), .clip = clip});
    result.norms.push_back(optimizer->gradient_norm().value());
  }
  for (const nn::NamedTensor& p : parameters) {
    Values values = p.tensor.to_vector<double>();
    result.parameters.insert(result.parameters.end(), values.begin(), values.end());
  }
  return result;
}

double rms_difference(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

}  // namespace

TEST_CASE("optimizers: 25 updates are PyTorch's") {
  std::ifstream file("tests/optim/golden.json");
  REQUIRE(file.is_open());
  json golden = json::parse(file);
  int updates = golden["updates"];
  REQUIRE(golden["cases"].size() == 8);
  for (const json& c : golden["cases"]) {
    std::string name = c["name"];
    CAPTURE(name);
    Values expected;
    for (const json& p : c["parameters"])
      for (double value : p["values"]) expected.push_back(value);
    Result exact = train(c, updates, Dtype::float64);
    REQUIRE(exact.parameters.size() == expected.size());
    // Both sides make at most 16 roundings an update, of numbers that the larger of the parameter
    // and its step, which is below 1, bounds.
    for (size_t i = 0; i < expected.size(); ++i)
      CHECK(std::abs(exact.parameters[i] - expected[i]) <=
            2 * 16 * updates * 0x1p-53 * std::max(1.0, std::abs(expected[i])));
    // A sum of 204 squares on each side, and its root.
    for (size_t t = 0; t < c["norms"].size(); ++t)
      CHECK(exact.norms[t] ==
            doctest::Approx(c["norms"][t].get<double>()).epsilon(2 * 205 * 0x1p-53));
    Result rounded = train(c, updates, Dtype::float32);
    CHECK(rms_difference(rounded.parameters, expected) <= 2 * c["rms_error"].get<double>());
  }
}
