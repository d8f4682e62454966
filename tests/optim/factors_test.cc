// Updates from the factors of a gradient: the bits of those from the whole gradient, for every
// shape and number of threads.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "brim/base/parallel.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"

using namespace brim;
using optim::Optimizer;

namespace {

using Parameters = std::vector<nn::NamedTensor>;

std::unique_ptr<Optimizer> make(const std::string& kind, const Parameters& parameters) {
  if (kind == "adamw") return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{});
  return std::make_unique<optim::Sgd>(parameters,
                                      optim::SgdOptions{.momentum = kind == "plain" ? 0 : 0.9,
                                                        .nesterov = kind == "nesterov",
                                                        .weight_decay = 0.01});
}

/// [rows, columns], of `rank` pixels.
struct Sizes {
  int64_t rows, columns, rank;
};

template <class T>
struct Problem {
  Problem(const std::string& kind, const Sizes& s)
      : sizes(s),
        parameters{{"first", leaf({3})}, {"weight", leaf({s.rows, s.columns})}},
        optimizer(make(kind, parameters)) {
    parameters[0].tensor.set_grad(zeros({3}, {.dtype = dtype_of<T>}));
  }
  static Tensor leaf(const Shape& shape) {
    return uniform(shape, -1, 1, RandomKey{7}, {.dtype = dtype_of<T>}).set_requires_grad();
  }
  autograd::GradientFactors factors(uint64_t step) const {
    const TensorOptions options{.dtype = dtype_of<T>};
    return {uniform({sizes.rank, sizes.rows}, -1, 1, RandomKey{10 + step}, options),
            uniform({sizes.rank, sizes.columns}, -1, 1, RandomKey{20 + step}, options)};
  }
  Tensor product(const autograd::GradientFactors& factors) const {
    Tensor whole = zeros({sizes.rows, sizes.columns}, {.dtype = dtype_of<T>});
    const T *a = factors.a.data<T>(), *b = factors.b.data<T>();
    for (int64_t k = 0; k < sizes.rows; ++k)
      for (int64_t j = 0; j < sizes.columns; ++j) {
        T sum = 0;
        for (int64_t m = 0; m < sizes.rank; ++m)
          sum = std::fma(a[m * sizes.rows + k], b[m * sizes.columns + j], sum);
        whole.data<T>()[k * sizes.columns + j] = sum;
      }
    return whole;
  }
  /// In pieces.
  void update(uint64_t step, bool whole) {
    optim::UpdateOptions options{.rate = 0.1};
    if (step == 1) options.clip.value = 0.5;
    if (step == 2) options.check_finite = false;
    optimizer->begin_pieces(options);
    optimizer->update_piece(parameters[0].tensor);
    const Tensor& weight = parameters[1].tensor;
    const autograd::GradientFactors given = factors(step);
    if (whole) {
      weight.set_grad(product(given));
      CHECK(optimizer->update_piece(weight));
    } else {
      REQUIRE(optimizer->takes_factors(weight));
      optimizer->update_piece(weight, given);
    }
    optimizer->end_pieces();
  }
  /// Not in pieces: held until all gradients are there, with a loss scale and a norm to clip to.
  void step(uint64_t step, bool whole) {
    optim::UpdateOptions options{.rate = 0.1, .loss_scale = step == 1 ? 4.0 : 1.0};
    if (step > 0) options.clip.norm = 0.01;
    const Tensor& weight = parameters[1].tensor;
    const autograd::GradientFactors given = factors(step);
    if (whole)
      weight.set_grad(product(given));
    else
      optimizer->hold_factors(weight, given);
    optimizer->step(options);
    weight.set_grad(Tensor());
    if (!whole) {  // held until they are dropped, like a gradient
      optimizer->prepare(options);
      optimizer->cancel();
      optimizer->zero_grad();
      parameters[0].tensor.set_grad(zeros({3}, {.dtype = dtype_of<T>}));
    }
  }
  std::vector<T> values() const {
    std::vector<T> all = parameters[1].tensor.template to_vector<T>();
    for (const nn::NamedTensor& each : optimizer->named_state())
      for (T value : each.tensor.template to_vector<T>()) all.push_back(value);
    return all;
  }

  Sizes sizes;
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
};

// Pieces of whole rows, four of them at a time; pieces that end within rows; one piece; stretches
// that end with a row, and within.
const Sizes kSizes[] = {{256, 512, 4}, {128, 1152, 16}, {64, 2049, 5}, {100, 701, 3},
                        {99, 701, 2},  {3, 5, 1},       {1, 1, 1},     {2, 40'000, 7}};

}  // namespace

TEST_CASE_TEMPLATE("factors give the bits of the whole gradient, and its norm", T, float, double) {
  for (const auto update : {&Problem<T>::update, &Problem<T>::step})
    for (const char* kind : {"plain", "momentum", "nesterov", "adamw"})
      for (const Sizes& sizes : kSizes) {
        CAPTURE((update == &Problem<T>::step));
        CAPTURE(kind);
        CAPTURE(sizes.rows);
        CAPTURE(sizes.columns);
        Problem<T> whole(kind, sizes), factored(kind, sizes);
        for (uint64_t number = 0; number < 3; ++number) {
          (whole.*update)(number, true);
          (factored.*update)(number, false);
          CHECK(factored.values() == whole.values());
          CHECK(factored.optimizer->gradient_norm() == whole.optimizer->gradient_norm());
        }
      }
}

TEST_CASE("factors: the bits do not depend on the number of threads") {
  const int before = num_threads();
  std::vector<float> first;
  for (int threads : {1, 3, 5}) {
    set_num_threads(threads);
    Problem<float> problem("momentum", {256, 512, 16});
    problem.update(0, false);
    problem.step(1, false);
    if (first.empty()) first = problem.values();
    CHECK(problem.values() == first);
  }
  set_num_threads(before);
}

TEST_CASE("factors of a gradient that is not finite are named") {
  const char* text = "sgd: the gradient of 'weight' is not finite: it has an infinity or a NaN";
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity()})
    for (bool in_a : {true, false}) {
      Problem<float> problem("momentum", {256, 512, 4});
      Optimizer& optimizer = *problem.optimizer;
      const Tensor& weight = problem.parameters[1].tensor;
      const autograd::GradientFactors factors = problem.factors(0);
      (in_a ? factors.a : factors.b).data<float>()[3] = bad;
      const std::vector<float> before = problem.values();
      optimizer.begin_pieces({.rate = 0.1});
      CHECK_THROWS_WITH_AS(optimizer.update_piece(weight, factors), text, ValueError);
      CHECK(problem.values() == before);  // as the first piece it is checked apart
      optimizer.begin_pieces({.rate = 0.1});
      optimizer.update_piece(problem.parameters[0].tensor);
      CHECK_THROWS_WITH_AS(optimizer.update_piece(weight, factors), text, ValueError);

      optimizer.cancel();
      optimizer.hold_factors(weight, factors);
      CHECK(optimizer.prepare_if_finite({.rate = 0.1}) == "weight");
      CHECK(optimizer.find_non_finite() == "weight");
    }
}

TEST_CASE("factors are taken once, and where nothing is bfloat16") {
  Problem<float> problem("momentum", {64, 64, 4});
  const Tensor& weight = problem.parameters[1].tensor;
  Optimizer& optimizer = *problem.optimizer;
  CHECK(optimizer.takes_factors(weight));
  optimizer.begin_pieces({.rate = 0.1});
  CHECK(optimizer.takes_factors(weight));
  optimizer.update_piece(problem.parameters[0].tensor);
  CHECK(optimizer.takes_factors(weight));
  CHECK_FALSE(optimizer.takes_factors(problem.parameters[0].tensor));
  CHECK_FALSE(optimizer.takes_factors(zeros({3})));  // a stranger
  const auto require_match = [&](const auto& taking) {
    CHECK_THROWS_WITH_AS(
        taking({zeros({4, 64}), zeros({4, 63})}),
        "sgd: expected factors of a gradient of shape [64,64] for 'weight', got [4,64] and [4,63]",
        ShapeError);
    const TensorOptions wide{.dtype = Dtype::float64};
    CHECK_THROWS_WITH_AS(taking({zeros({4, 64}), zeros({4, 64}, wide)}),
                         "sgd: expected contiguous factors of float32 on cpu for 'weight', got "
                         "float64 on cpu",
                         DtypeError);
  };
  using Factors = autograd::GradientFactors;
  require_match([&](const Factors& factors) { optimizer.update_piece(weight, factors); });
  require_match([&](const Factors& factors) { optimizer.hold_factors(weight, factors); });
  optimizer.update_piece(weight, problem.factors(0));
  CHECK_FALSE(optimizer.takes_factors(weight));

  optimizer.cancel();
  weight.set_grad(zeros({64, 64}));
  CHECK_THROWS_WITH_AS(optimizer.hold_factors(weight, problem.factors(0)),
                       "sgd: 'weight' has a gradient beside its factors", ValueError);
  weight.set_grad(Tensor());
  optimizer.hold_factors(weight, problem.factors(0));
  CHECK_FALSE(optimizer.takes_factors(weight));
  weight.set_grad(zeros({64, 64}));
  CHECK_THROWS_WITH_AS(optimizer.prepare({.rate = 0.1}),
                       "sgd: 'weight' has a gradient beside its factors", ValueError);
  optimizer.zero_grad();
  CHECK_THROWS_WITH_AS(optimizer.prepare({.rate = 0.1}),
                       "sgd: no parameter has a gradient: call backward first", ValueError);

  optim::Sgd low(problem.parameters, {.momentum = 0.9, .state = Dtype::bfloat16});
  CHECK_FALSE(low.takes_factors(weight));
}
