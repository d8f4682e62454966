// Logits of every model that torchvision has too, with random weights and running statistics,
// against PyTorch's in float64. make_logits.py describes the numbers and the file.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "brim/autograd/op.h"
#include "brim/tests/golden/formula_model.h"
#include "brim/tests/support/instrumented.h"

using namespace brim;
using nlohmann::json;

namespace {

// Of the largest logit. The deepest model, resnet152, has 155 convolutions with a norm each, which
// round their results by at most half an epsilon of float32, 6e-8: 1.9e-5 if all errors add up.
constexpr double kBound = 2e-5;
constexpr int64_t kSmallModel = 30'000'000;  // parameters: the others are slow under sanitizers

json golden() {
  std::ifstream file("tests/golden/logits.json");
  REQUIRE(file.is_open());
  return json::parse(file);
}

/// The largest error over the largest logit.
double error_of(nn::Module& model, const Tensor& x, const json& expected) {
  autograd::NoGradScope no_grad;
  std::vector<double> got = model(x).to_vector<double>();
  REQUIRE(got.size() == expected.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double wanted = expected[i];
    worst = std::max(worst, std::abs(got[i] - wanted));
    largest = std::max(largest, std::abs(wanted));
  }
  return worst / largest;
}

}  // namespace

TEST_CASE("logits: every model of torchvision gives PyTorch's") {
  json file = golden();
  int64_t batch = file["batch"];
  for (const auto& [name, entry] : file["models"].items()) {
    auto model = testing::formula_model(name, file["classes"]);
    if (testing::is_instrumented() && model->parameter_count() > kSmallModel) continue;
    int64_t size = entry.value("size", file["size"].get<int64_t>());
    Tensor x = empty({batch, size, size, 3});
    testing::set_by_formula("input", x, 0, 1);
    double error = error_of(*model, x, entry["logits"]);
    MESSAGE(name << ": off by " << error << ", PyTorch's float32 by "
                 << entry["float32_error"].get<double>());
    CAPTURE(name);
    CHECK(error <= kBound);
  }
}

TEST_CASE("logits: no model of torchvision is left out") {
  json models = golden()["models"];
  for (const std::string& name : nn::model_names()) {
    CAPTURE(name);
    bool ours_alone = name == "resnet20" || name == "mobilenet_v1";
    CHECK(models.contains(name) == !ours_alone);
  }
}
