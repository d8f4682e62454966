// Training steps against PyTorch's, from equal numbers. In float64 losses and gradients must agree
// to 1e-9. In float32 nobody agrees with anybody, so errors are compared: brim's distance from
// float64 must be at most twice PyTorch's own, gradient by gradient. make_golden.py describes the
// problem and the files.
#include <doctest/doctest.h>

#include <cmath>

#include "brim/tests/golden/golden_training.h"
#include "brim/tests/support/instrumented.h"

using namespace brim;
using namespace brim::testing;
using nlohmann::json;

namespace {

// What the file keeps of a gradient: all of a small one, projections of a large one.
Values summary_of(const std::string& name, const Values& gradient, const json& tensor) {
  if (tensor.contains("elements")) return gradient;
  Values sums;
  for (size_t j = 0; j < tensor["projections"].size(); ++j) {
    std::string key = "proj" + std::to_string(j) + ":" + name;
    Values signs = formula_numbers(key, static_cast<int64_t>(gradient.size()));
    long double sum = 0;
    for (size_t i = 0; i < gradient.size(); ++i) sum += signs[i] < 0 ? gradient[i] : -gradient[i];
    sums.push_back(static_cast<double>(sum / std::sqrt(static_cast<long double>(gradient.size()))));
  }
  return sums;
}

// What errors of a gradient are measured by: its own largest magnitude. The bias of a batch norm
// whose result goes into another one through linear ops alone has no effect on the loss: its
// gradient is a sum that cancels to rounding errors, measured by that of the weight beside it.
double scale_of(const json& golden, const json& tensor) {
  double own = tensor["max"], largest = 0;
  for (const json& other : golden["tensors"]) largest = std::max<double>(largest, other["max"]);
  if (own > 1e-12 * largest) return own;
  std::string name = tensor["name"];
  REQUIRE(name.ends_with(".bias"));
  std::string weight = name.substr(0, name.size() - 4) + "weight";
  for (const json& other : golden["tensors"])
    if (other["name"] == weight) return other["max"];
  return own;
}

void check_float64(const json& golden, const Result& ours) {
  constexpr double kBound = 1e-9;
  double worst_loss = 0, worst_gradient = 0;
  for (size_t i = 0; i < ours.losses.size(); ++i) {
    double expected = golden["losses"][i];
    worst_loss = std::max(worst_loss, std::abs(ours.losses[i] - expected) / std::abs(expected));
  }
  for (size_t i = 0; golden.contains("norms") && i < ours.norms.size(); ++i) {
    double expected = golden["norms"][i];
    CHECK(std::abs(ours.norms[i] - expected) <= kBound * expected);
  }
  double eval_loss = golden["eval_loss"];
  CHECK(std::abs(ours.eval_loss - eval_loss) <= kBound * std::abs(eval_loss));
  for (const json& tensor : golden["tensors"]) {
    std::string name = tensor["name"];
    CAPTURE(name);
    const json& expected = tensor.contains("elements") ? tensor["elements"] : tensor["projections"];
    Values got = summary_of(name, ours.gradients.at(name), tensor);
    REQUIRE(got.size() == expected.size());
    double largest = scale_of(golden, tensor);
    for (size_t i = 0; i < got.size(); ++i) {
      double error = std::abs(got[i] - expected[i].get<double>()) / largest;
      worst_gradient = std::max(worst_gradient, error);
      CHECK(error <= kBound);
    }
  }
  MESSAGE("float64: losses agree to " << worst_loss << ", gradients to " << worst_gradient);
  CHECK(worst_loss <= kBound);
}

// A loss is one number, and its error in one run one draw: right to the last digit by luck, or four
// times as far off as in another order of sums. (What has many numbers, the gradients and with that
// of the last bias the softmax of all logits, is held to twice PyTorch's error above.) So PyTorch's
// errors, of all runs and steps together, give a deviation, and ours must be likely draws too. The
// runs share most of their kernels; with 7 degrees of freedom, of 20 errors, Student's t is beyond
// 10 once in 50,000 losses.
constexpr double kLossDeviations = 10;

double loss_deviation(const json& golden) {
  double squares = 0, count = 0;
  for (const json& run : golden["loss_errors"])
    for (double error : run) {
      squares += error * error;
      ++count;
    }
  return std::sqrt(squares / count);
}

void check_float32(const json& golden, const Result& exact, const Result& ours) {
  double worst = 0;
  for (const json& tensor : golden["tensors"]) {
    std::string name = tensor["name"];
    CAPTURE(name);
    double error = rms_difference(ours.gradients.at(name), exact.gradients.at(name));
    double theirs = tensor["rms_error"];
    CHECK(error <= 2 * theirs);
    worst = std::max(worst, error / theirs);
  }
  double deviation = loss_deviation(golden), largest = 0;
  for (size_t i = 0; i < exact.losses.size(); ++i) {
    double error = std::abs(ours.losses[i] - exact.losses[i]) / deviation;
    CHECK(error <= kLossDeviations);
    largest = std::max(largest, error);
  }
  MESSAGE("float32: largest error of a loss in deviations of PyTorch's: " << largest);
  MESSAGE("float32: largest error of a gradient over PyTorch's: " << worst);
}

void check_model(const std::string& name) {
  json golden = load_golden(name);
  Result exact = train(golden, Dtype::float64);
  check_float64(golden, exact);
  check_float32(golden, exact, train(golden, Dtype::float32));
}

}  // namespace

TEST_CASE("resnet18 trains like PyTorch") { check_model("resnet18"); }
// The sanitizers see the same code in the others.
TEST_CASE("resnet50 trains like PyTorch" * doctest::skip(testing::is_instrumented())) {
  check_model("resnet50");
}
TEST_CASE("mobilenet_v2 trains like PyTorch" * doctest::skip(testing::is_instrumented())) {
  check_model("mobilenet_v2");
}
TEST_CASE("mobilenet_v3_large trains like PyTorch") { check_model("mobilenet_v3_large"); }
