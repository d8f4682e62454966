// On the CPU an update of all parameters is one parallel loop, and so are the sums of squares
// before it: how many loops there are, and the bits of each parameter by itself.
// tests/optim/cuda_test.cc has the same of a GPU.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <memory>

#include "brim/base/gathered.h"
#include "brim/base/parallel.h"
#include "brim/core/batch.h"
#include "brim/core/call_list.h"
#include "brim/nn/linear.h"
#include "brim/optim/adamw.h"
#include "brim/optim/ema.h"
#include "brim/optim/sgd.h"

using namespace brim;
using optim::Optimizer;

namespace {

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<nn::NamedTensor>)>;

const std::vector<Make> kOptimizers{
    [](auto parameters) {
      return std::make_unique<optim::Sgd>(std::move(parameters),
                                          optim::SgdOptions{.momentum = 0.9, .weight_decay = 0.01});
    },
    [](auto parameters) {
      return std::make_unique<optim::Sgd>(
          std::move(parameters),
          optim::SgdOptions{.momentum = 0.9, .nesterov = true, .state = Dtype::bfloat16});
    },
    [](auto parameters) { return std::make_unique<optim::AdamW>(std::move(parameters)); },
    [](auto parameters) {
      return std::make_unique<optim::AdamW>(std::move(parameters),
                                            optim::AdamWOptions{.state = Dtype::bfloat16});
    }};

// Too small to be shared out, around a unit of 64 elements, of none, and large.
std::vector<nn::NamedTensor> parameters_of(std::initializer_list<Dtype> dtypes) {
  std::vector<nn::NamedTensor> parameters;
  for (Dtype dtype : dtypes)
    for (int64_t size : {3, 100'003, 1, 0, 64, 65, 40'000, 127, 2000})
      parameters.push_back({"p" + std::to_string(parameters.size()),
                            uniform({size}, -1, 1, RandomKey{7}, {.dtype = dtype})});
  for (nn::NamedTensor& each : parameters) each.tensor.set_requires_grad();
  return parameters;
}

void make_gradients(const std::vector<nn::NamedTensor>& parameters, uint64_t step) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i].tensor;
    p.set_grad(uniform(p.shape(), -2, 2, RandomKey{100 * step + i}, {.dtype = p.dtype()}));
  }
}

std::vector<double> values_of(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<double> all;
  for (const nn::NamedTensor& each : tensors)
    for (double value : each.tensor.to_vector<double>()) all.push_back(value);
  return all;
}

constexpr int kSteps = 3;
const optim::UpdateOptions kUpdate{.rate = 0.1, .clip = {.norm = 50}};

std::vector<double> updated(const Make& make, int threads) {
  const int before = num_threads();
  set_num_threads(threads);
  const auto parameters = parameters_of({Dtype::float32});
  const auto optimizer = make(parameters);
  for (uint64_t step = 0; step < kSteps; ++step) {
    make_gradients(parameters, step);
    optimizer->step(kUpdate);
  }
  set_num_threads(before);
  auto all = values_of(parameters), state = values_of(optimizer->named_state());
  all.insert(all.end(), state.begin(), state.end());
  return all;
}

int64_t loops_of(const std::function<void()>& work) {
  const int64_t before = batches_started();
  work();
  return batches_started() - before;
}

}  // namespace

TEST_CASE("one loop sums the squares of all gradients, and one updates all parameters") {
  for (const Make& make : kOptimizers) {
    const auto parameters = parameters_of({Dtype::float32});
    const auto optimizer = make(parameters);
    make_gradients(parameters, 0);
    CHECK(loops_of([&] { optimizer->prepare(kUpdate); }) == 1);
    CHECK(loops_of([&] { optimizer->commit(); }) == 1);
  }
}

TEST_CASE("parameters of two types are two loops, in the order of the parameters") {
  const auto parameters = parameters_of({Dtype::float32, Dtype::float64});
  optim::Sgd sgd(parameters);
  make_gradients(parameters, 0);
  CHECK(loops_of([&] { sgd.prepare(kUpdate); }) == 2);
  CHECK(loops_of([&] { sgd.commit(); }) == 2);
}

TEST_CASE("the bits do not depend on the number of threads, nor on the other parameters") {
  for (const Make& make : kOptimizers) {
    const std::vector<double> all = updated(make, 1);
    for (int threads : {2, 3, 7}) CHECK(updated(make, threads) == all);
  }
  // Without a limit for the norm of all gradients, each parameter could as well be the only one.
  const auto together = parameters_of({Dtype::float32}), apart = parameters_of({Dtype::float32});
  make_gradients(together, 1);
  make_gradients(apart, 1);
  optim::Sgd(together, {.weight_decay = 0.01}).step(0.1);
  for (const nn::NamedTensor& each : apart)
    if (each.tensor.numel() > 0) optim::Sgd({each}, {.weight_decay = 0.01}).step(0.1);
  CHECK(values_of(together) == values_of(apart));
}

TEST_CASE("in a scope around it an update is what it is without: who opens one finds the results") {
  const auto parameters = parameters_of({Dtype::float32}), others = parameters_of({Dtype::float32});
  optim::Sgd sgd(parameters), alone(others);
  for (uint64_t step = 0; step < kSteps; ++step) {
    make_gradients(parameters, step);
    make_gradients(others, step);
    const BatchScope scope;
    sgd.step(kUpdate);  // clips to a norm that it has to read
    CHECK(loops_of([&] { alone.step(kUpdate); }) == 2);
    CHECK(sgd.gradient_norm() == alone.gradient_norm());
  }
  CHECK(values_of(parameters) == values_of(others));
  parameters[0].tensor.set_grad(full({3}, std::numeric_limits<double>::infinity()));
  const BatchScope scope;
  CHECK(sgd.prepare_if_finite(kUpdate) == parameters[0].name);
}

TEST_CASE("where parallel loops are an error, it comes before anything is gathered") {
  const auto parameters = parameters_of({Dtype::float32});
  optim::Sgd sgd(parameters);
  make_gradients(parameters, 0);
  {
    const NoParallelScope scope;
    CHECK_THROWS_AS(sgd.prepare(kUpdate), InternalError);
  }
  CHECK(gathering_depth() == 0);
  sgd.step(kUpdate);
}

TEST_CASE("averages are one loop, and so is their change of places") {
  nn::Linear linear(3, 2);
  optim::Ema ema(linear, {.decay = 0.5});
  CHECK(loops_of([&] { ema.update(); }) == 1);
  CHECK(loops_of([&] { const optim::EmaScope scope(ema); }) == 2);  // there and back
}

TEST_CASE("launches that were recorded in a scope gather when they are made") {
  const auto parameters = parameters_of({Dtype::float32}), others = parameters_of({Dtype::float32});
  optim::Sgd sgd(parameters), dynamic(others);
  make_gradients(parameters, 1);
  make_gradients(others, 1);
  sgd.begin_replay({.rate = 0.1});
  CallList calls;
  CHECK(loops_of([&] {
          CallRecording recording;
          sgd.prepare({.rate = 0.1, .check_finite = false});
          sgd.commit();
          calls = recording.finish();
        }) == 0);
  sgd.prepare({.rate = 0.1, .check_finite = false});  // the numbers of the step
  sgd.cancel();
  CHECK(loops_of([&] { calls.run(); }) == 1);
  dynamic.step(0.1);
  CHECK(values_of(parameters) == values_of(others));
  CHECK(gathering_depth() == 0);
}

TEST_CASE("a recorded call that throws ends the scope around it, and what was gathered runs") {
  const auto parameters = parameters_of({Dtype::float32});
  optim::Sgd sgd(parameters);
  make_gradients(parameters, 1);
  sgd.prepare({.rate = 0.1});
  const std::vector<double> before = values_of(parameters);
  CallRecording recording;
  {
    const BatchScope scope;
    sgd.commit();
    recording.add([] { raise<ValueError>("test", "a call that fails"); });
  }
  const CallList calls = recording.finish();
  CHECK_THROWS_AS(calls.run(), ValueError);
  CHECK(gathering_depth() == 0);
  CHECK(values_of(parameters) != before);
}
