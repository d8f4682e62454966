// Where an op writes over its input and where it must not. That the bits are the same with every
// input an op may overwrite is checked for each op by the harness (support/replay.h).
#include "brim/autograd/in_place.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/ops/ops.h"
#include "brim/tests/support/compare.h"

using namespace brim;
using autograd::InPlaceScope;

namespace {

Tensor random(const Shape& shape, uint64_t seed = 1) { return uniform(shape, -1, 1, {seed}); }

/// Where the values of `x` are, without a hold on them.
const void* place(const Tensor& x) { return x.data(); }

/// Watches which inputs were overwritten.
struct Overwritten final : autograd::OpObserver {
  void ran(const autograd::OpEvent& event) override {
    if (event.phase == autograd::Phase::forward) inputs.push_back(event.overwritten);
  }
  std::vector<int> inputs;
};

}  // namespace

TEST_CASE("an input that nobody else holds is overwritten, and only inside a scope") {
  Tensor x = random({64});
  const void* before = place(x);
  Tensor y = relu(std::move(x));
  CHECK(place(y) != before);

  InPlaceScope scope(true);
  before = place(y);
  Overwritten seen;
  Tensor z = sigmoid(std::move(y));
  CHECK(place(z) == before);
  CHECK(seen.inputs == std::vector{0});
  {
    InPlaceScope off(false);
    z = sigmoid(std::move(z));
    CHECK(place(z) != before);
  }
  before = place(z);
  z = sigmoid(std::move(z));
  CHECK(place(z) == before);
}

TEST_CASE("a chain without gradients takes one buffer") {
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(), memory::planner_named("direct"));
  memory::AccountScope of(account);
  InPlaceScope scope(true);
  constexpr int64_t kBytes = 1 << 12;
  Tensor x = random({kBytes / 4});
  x = tanh(relu(hardswish(dropout(neg(std::move(x)), {.p = 0.5, .training = true}))));
  CHECK(account->stats().peak_live == kBytes);
  Tensor scaled = mul(std::move(x), random({1}, 2));
  CHECK(account->stats().peak_live < 2 * kBytes);
}

TEST_CASE("what somebody else can read is left alone") {
  InPlaceScope scope(true);
  Overwritten seen;
  Tensor x = random({8, 8});
  std::vector<float> values = x.to_vector<float>();

  SUBCASE("another handle") {
    Tensor held = x;
    relu(std::move(x));
    CHECK(held.to_vector<float>() == values);
  }
  SUBCASE("the caller's own handle") {
    relu(x);
    CHECK(x.to_vector<float>() == values);
  }
  SUBCASE("a view") {
    Tensor view = x.view_as({64});
    relu(std::move(x));
    CHECK(view.to_vector<float>() == values);
  }
  SUBCASE("a part of a larger storage") {
    Tensor larger = random({4, 8});
    Tensor part(larger.storage(), {.shape = {2, 8}, .strides = {8, 1}});
    larger = {};
    relu(std::move(part));
  }
  SUBCASE("both inputs are one tensor") {
    Tensor other = x;
    add(std::move(x), std::move(other));
  }
  SUBCASE("a leaf that wants a gradient") {
    x.set_requires_grad();
    relu(std::move(x));
  }
  SUBCASE("a parameter, an input, whatever is counted apart") {
    x.storage()->set_category(memory::Category::input);
    relu(std::move(x));
  }
  for (int input : seen.inputs) CHECK(input == -1);
  CHECK(!seen.inputs.empty());
}

TEST_CASE("what backward will read is left alone, and its gradients have the same bits") {
  auto gradient = [](bool in_place) {
    InPlaceScope scope(in_place);
    Tensor x = random({32, 32});
    x.set_requires_grad();
    Overwritten seen;
    // exp saves its output, gelu its input, neg and add nothing, relu its output.
    Tensor y = gelu(neg(exp(x)));
    Tensor z = relu(add(neg(x), std::move(y)));
    CHECK(seen.inputs ==
          (in_place ? std::vector{-1, -1, -1, -1, 0, 0} : std::vector{-1, -1, -1, -1, -1, -1}));
    backward(sum(std::move(z)));
    return x.grad().to_vector<float>();
  };
  CHECK(gradient(true) == gradient(false));
}

TEST_CASE("of two inputs the one with the output's elements is overwritten") {
  InPlaceScope scope(true);
  Tensor row = random({8}), whole = random({4, 8}, 2);
  const void* place_of_whole = place(whole);
  Tensor sum = add(std::move(row), std::move(whole));
  CHECK(place(sum) == place_of_whole);
  // Neither has all of them.
  Tensor column = random({4, 1}, 3), other = random({1, 8}, 4);
  Overwritten seen;
  CHECK(mul(std::move(column), std::move(other)).shape() == Shape{4, 8});
  CHECK(seen.inputs == std::vector{-1});
}

TEST_CASE("batch norm writes over its input in evaluation, over its residual in training") {
  InPlaceScope scope(true);
  auto run = [](bool training) {
    Tensor weight = ones({4}), bias = zeros({4}), mean = zeros({4}), var = ones({4});
    weight.set_requires_grad();
    autograd::GradModeScope mode(training);
    Overwritten seen;
    batch_norm(random({2, 4, 4, 4}), weight, bias, mean, var,
               {.residual = random({2, 4, 4, 4}, 2), .training = training});
    return seen.inputs;
  };
  CHECK(run(false) == std::vector{0});
  CHECK(run(true) == std::vector{3});
}

TEST_CASE("a step with ops in place holds less on the meta device as on the real one") {
  auto peak = [](Device device, bool in_place) {
    auto account = std::make_shared<memory::Account>(
        device,
        device.is_meta() ? std::unique_ptr<memory::Source>(std::make_unique<memory::NullSource>())
                         : std::make_unique<memory::HostSource>(),
        memory::planner_named("direct"));
    memory::AccountScope of(account);
    InPlaceScope scope(in_place);
    Tensor w = zeros({64, 64}, {.device = device});
    w.set_requires_grad();
    Tensor x = zeros({4096, 64}, {.device = device});
    Tensor y = add(linear(x, w, {}), linear(x, w, {}));
    backward(sum(mul(std::move(y), zeros({64}, {.device = device}))));
    return account->stats().peak_live;
  };
  CHECK(peak(Device::cpu(), true) < peak(Device::cpu(), false));
  for (bool in_place : {true, false})
    CHECK(peak(Device::meta(), in_place) == peak(Device::cpu(), in_place));
}
