// Training steps in mixed precision against PyTorch's autocast, from equal numbers: in halves no
// two implementations agree, so errors are compared. brim's gradients must be at most twice as far
// from float64's as PyTorch's are, and its losses as near to them. make_autocast.py describes the
// file.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/tests/golden/golden_training.h"
#include "brim/tests/support/instrumented.h"

using namespace brim;
using namespace brim::testing;
using nlohmann::json;

namespace {

/// The largest of all variants.
double largest(const json& values) {
  double most = 0;
  for (const json& value : values) most = std::max(most, value.get<double>());
  return most;
}

/// Of a gradient, but for the 256th part that is furthest off: two of the 512 rows of the widest
/// weights. Where what goes into a ReLU is within rounding of 0, which side it falls on is any
/// implementation's luck, and all that this one unit passes on with it: one such row has had three
/// quarters of the squares of all errors. PyTorch's are of all elements, with such luck as it had.
double rms_error(const Values& ours, const Values& exact) {
  return rms_difference(ours, exact, ours.size() / 256);
}

void check_gradients(const json& theirs, const Result& exact, const Result& ours) {
  std::vector<double> ratios;
  for (const auto& [name, errors] : theirs["rms_errors"].items()) {
    CAPTURE(name);
    const double error = rms_error(ours.gradients.at(name), exact.gradients.at(name));
    CHECK(error <= 2 * largest(errors));
    ratios.push_back(error / largest(errors));
  }
  std::ranges::sort(ratios);
  CHECK(ratios[ratios.size() / 2] <= 1.1);
  MESSAGE("errors of gradients over PyTorch's: median " << ratios[ratios.size() / 2] << ", largest "
                                                        << ratios.back());
}

void check_losses(const json& theirs, const Result& exact, const Result& ours) {
  for (size_t i = 0; i < exact.losses.size(); ++i) {
    CAPTURE(i);
    double most = 0;  // of PyTorch's errors up to this step, which grow from step to step
    for (const json& losses : theirs["losses"])
      for (size_t k = 0; k <= i; ++k)
        most = std::max(most, std::abs(losses[k].get<double>() - exact.losses[k]));
    CHECK(std::abs(ours.losses[i] - exact.losses[i]) <= 2 * most);
  }
}

void check_model(const std::string& name) {
  const json golden = load_golden(name), autocast = load_golden("autocast");
  const Result exact = train(golden, Dtype::float64);
  for (Dtype dtype : {Dtype::bfloat16, Dtype::float16}) {
    CAPTURE(to_string(dtype));
    const json& theirs = autocast["models"][name][std::string(to_string(dtype))];
    const Result ours = train(golden, Dtype::float32, dtype);
    check_gradients(theirs, exact, ours);
    check_losses(theirs, exact, ours);
  }
}

}  // namespace

TEST_CASE("resnet18 trains in halves like PyTorch") { check_model("resnet18"); }
TEST_CASE("mobilenet_v2 trains in halves like PyTorch" *
          doctest::skip(testing::is_instrumented())) {
  check_model("mobilenet_v2");
}
