// The tape on toy ops defined here, as a user would define them.
#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/autograd/effects.h"
#include "brim/autograd/gradcheck.h"
#include "brim/autograd/node.h"
#include "brim/core/launch.h"
#include "brim/memory/out_of_memory.h"

using namespace brim;
using namespace brim::autograd;

namespace {

// y = scale * a * b, elementwise, on the host. The sign of a's gradient can be made wrong.
class Multiply final : public Op {
 public:
  explicit Multiply(double scale = 1, double sign = 1) : scale_(scale), sign_(sign) {}
  const char* name() const override { return "multiply"; }
  Tensors forward(const Tensors& in, const ForwardContext&) const override {
    return {combine(in[0], in[1], scale_)};
  }
  Saves saves(const Needs& needs) const override {
    Saves saves;
    if (needs[1]) saves.inputs.push_back(0);
    if (needs[0]) saves.inputs.push_back(1);
    return saves;
  }
  Tensors backward(BackwardCall& call) const override {
    Tensor dy = call.take_grad();
    return {call.needs(0) ? combine(dy, call.input(1), sign_ * scale_) : Tensor(),
            call.needs(1) ? combine(dy, call.input(0), scale_) : Tensor()};
  }

 private:
  static Tensor combine(const Tensor& a, const Tensor& b, double scale) {
    Tensor y = empty_like(a);
    if (a.device().is_meta()) return y;
    auto u = a.to_vector<double>(), v = b.to_vector<double>();
    for (size_t i = 0; i < u.size(); ++i) u[i] *= scale * v[i];
    copy_into(y, from_vector(u, a.shape()));
    return y;
  }
  double scale_, sign_;
};

Tensor multiply(Tensor a, Tensor b, double scale = 1, Where where = Where::current()) {
  return apply_one(std::make_shared<Multiply>(scale), {std::move(a), std::move(b)}, where);
}

// y = x, and counts its calls in a buffer.
class Count final : public Op {
 public:
  explicit Count(Tensor counter) : counter_(std::move(counter)) {}
  const char* name() const override { return "count"; }
  Tensors forward(const Tensors& in, const ForwardContext&) const override {
    return {clone(in[0])};
  }
  Tensors backward(BackwardCall& call) const override { return {call.take_grad()}; }
  void apply_effects(const Tensors&, const Tensors&) const override {
    Tensor target = effect_target(counter_);
    fill(target, target.item<double>() + 1);
  }

 private:
  Tensor counter_;
};

Tensor leaf(double value, const Shape& shape = {}) {
  return full(shape, value, {.dtype = Dtype::float64}).set_requires_grad();
}

int64_t live_bytes() { return memory::account(Device::cpu())->stats().live; }

}  // namespace

TEST_CASE("gradients follow the chain rule and add up in leaves") {
  Tensor a = leaf(3), b = leaf(5);
  Tensor y = multiply(multiply(a, b), a);  // a^2 b
  backward(y);
  CHECK(a.grad().item<double>() == 30);
  CHECK(b.grad().item<double>() == 9);
  backward(multiply(a, b));
  CHECK(a.grad().item<double>() == 35);
  CHECK(a.grad().storage()->category() == memory::Category::gradients);
}

TEST_CASE("a value used several times gets the sum of its gradients") {
  Tensor a = leaf(2);
  Tensor square = multiply(a, a);
  backward(multiply(square, square));  // a^4
  CHECK(a.grad().item<double>() == 32);
}

TEST_CASE("nothing is recorded without leaves that ask, or inside a no-grad scope") {
  Tensor a = full({}, 2), b = full({}, 3);
  CHECK(multiply(a, b).is_leaf());
  a.set_requires_grad();
  {
    NoGradScope no_grad;
    CHECK(multiply(a, b).is_leaf());
  }
  CHECK(!multiply(a, b).is_leaf());
  CHECK(grad_enabled());
}

TEST_CASE("backward of something unrecorded, of a vector, or of a freed graph is refused") {
  CHECK_THROWS_AS(backward(full({}, 1)), AutogradError);
  Tensor a = leaf(2, {3});
  CHECK_THROWS_AS(backward(multiply(a, a)), ShapeError);
  Tensor b = leaf(2), y = multiply(b, b);
  backward(y, {.retain_graph = true});
  backward(y);
  CHECK(b.grad().item<double>() == 8);
  CHECK_THROWS_AS(backward(y), AutogradError);
}

TEST_CASE("a saved tensor that was overwritten is refused, naming the writer") {
  Tensor a = leaf(2), b = full({}, 3, {.dtype = Dtype::float64});
  Tensor y = multiply(a, b);
  fill(b, 4);
  CHECK_THROWS_WITH_AS(backward(y),
                       "multiply: a saved tensor of shape [] was overwritten by 'fill' after the "
                       "forward pass",
                       AutogradError);
}

TEST_CASE("hooks see gradients, may replace them, and must keep the shape") {
  Tensor a = leaf(3), b = multiply(a, a);
  double seen = 0;
  register_hook(b, [&](const Tensor& grad) {
    seen = grad.item<double>();
    return full({}, 10, {.dtype = Dtype::float64});
  });
  register_hook(a, [](const Tensor& grad) { return multiply(grad, grad); });
  backward(multiply(b, b));
  CHECK(seen == 18);
  // 10 flows into a * a: 30 for each use of a, and the leaf's hook squares their sum.
  CHECK(a.grad().item<double>() == 3600);
  Tensor c = leaf(1);
  register_hook(c, [](const Tensor&) { return zeros({2}, {.dtype = Dtype::float64}); });
  CHECK_THROWS_AS(backward(multiply(c, c)), ShapeError);
}

TEST_CASE("a gradient of another dtype or device is refused, wherever it comes from") {
  Tensor a = leaf(1, {2});
  CHECK_THROWS_WITH_AS(backward(multiply(a, a), {.grad = ones({2})}),
                       "backward: expected a gradient of float64, got float32", DtypeError);
  Tensor meta = ones({2}, {.dtype = Dtype::float64, .device = Device::meta()});
  CHECK_THROWS_AS(backward(multiply(a, a), {.grad = meta}), DeviceError);
  CHECK_THROWS_AS(accumulate_into(a, ones({2})), DtypeError);
  Tensor y = multiply(a, a);
  register_hook(y, [](const Tensor&) { return ones({2}); });
  CHECK_THROWS_WITH_AS(backward(y, {.grad = a.detach()}),
                       "hook: expected a gradient of float64, got float32", DtypeError);
}

TEST_CASE("backward inside a module goes back to the modules of the forward pass") {
  struct Paths final : OpObserver {
    void ran(const OpEvent& event) override { seen.push_back(event.module); }
    std::vector<std::string> seen;
  } paths;
  Tensor a = leaf(1), y;
  {
    ModuleScope outer("layer1");
    ModuleScope inner("conv");
    y = multiply(a, a);
  }
  ModuleScope elsewhere("other");
  backward(y);
  REQUIRE(paths.seen.size() >= 2);
  CHECK(paths.seen.front() == "layer1.conv");
  CHECK(paths.seen.back() == "layer1.conv");
}

TEST_CASE("a random call that fails and is tried again has the same address") {
  struct Draws final : Op {
    Draws(bool fails, std::vector<RandomKey>& keys) : fails(fails), keys(keys) {}
    const char* name() const override { return "draws"; }
    Tensors forward(const Tensors& in, const ForwardContext& context) const override {
      keys.push_back(context.random.key);
      if (fails) throw std::runtime_error("no");
      return {clone(in[0])};
    }
    Tensors backward(BackwardCall& call) const override { return {call.take_grad()}; }
    bool is_random() const override { return true; }
    bool fails;
    std::vector<RandomKey>& keys;
  };
  RandomScope scope(1, 1);
  std::vector<RandomKey> keys;
  Tensor a = leaf(1);
  CHECK_THROWS(apply_one(std::make_shared<Draws>(true, keys), {a}, Where::current()));
  apply_one(std::make_shared<Draws>(false, keys), {a}, Where::current());
  apply_one(std::make_shared<Draws>(false, keys), {a}, Where::current());
  REQUIRE(keys.size() == 3);
  CHECK(keys[0] == keys[1]);
  CHECK(keys[1] != keys[2]);
}

TEST_CASE("a chain of 100,000 ops neither overflows the stack forwards, backwards nor in ruin") {
  int64_t before = live_bytes();
  {
    Tensor a = leaf(1), one = full({}, 1, {.dtype = Dtype::float64});
    Tensor y = a;
    for (int i = 0; i < 100'000; ++i) y = multiply(std::move(y), one);
    backward(y);
    CHECK(a.grad().item<double>() == 1);
  }
  {
    Tensor a = leaf(1), y = a;
    for (int i = 0; i < 100'000; ++i) y = multiply(std::move(y), a);
  }  // destroyed without backward
  {
    Tensor y = leaf(1);
    for (int i = 0; i < 100'000; ++i) y = multiply(y, y);  // two edges to each node
  }
  {
    Tensor y = leaf(1), one = full({}, 1, {.dtype = Dtype::float64});
    for (int i = 0; i < 50'000; ++i) y = multiply(multiply(y, one), y);  // as residual blocks
  }
  CHECK(live_bytes() == before);
}

TEST_CASE("gradients of intermediates and saved tensors are freed as soon as they are used") {
  // A chain of n multiplications by a constant: backward holds two gradients at a time, not n.
  constexpr int n = 50;
  constexpr int64_t bytes = 8 * 1024;
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  Tensor a = leaf(1, {1024}), y = a, constant = full({1024}, 1, {.dtype = Dtype::float64});
  for (int i = 0; i < n; ++i) y = multiply(std::move(y), constant);
  CHECK(account->stats().live == 3 * bytes);  // a, the constant, y
  account->reset_peak();
  backward(y, {.grad = full({1024}, 1, {.dtype = Dtype::float64})});
  // Those three, one gradient in, one out, and the buffer from which the toy op copies.
  CHECK(account->stats().peak_live == 6 * bytes);
}

TEST_CASE("in nested calls each intermediate is freed when the next op has it") {
  constexpr int64_t bytes = 8 * 1024;
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  Tensor a = full({1024}, 1, {.dtype = Dtype::float64});
  account->reset_peak();
  multiply(multiply(multiply(multiply(a, a), a), a), a);
  // a, one op's input, its output, and the buffer from which the toy op copies it.
  CHECK(account->stats().peak_live == 4 * bytes);
}

TEST_CASE("an error in backward leaves no more bytes than before") {
  int64_t before = live_bytes();
  Tensor a = leaf(1, {100}), b = leaf(2, {100});
  int64_t leaves = live_bytes();
  for (int64_t n = 1;; ++n) {
    Tensor y = multiply(multiply(a, b), a);
    auto account = memory::account(Device::cpu());
    int64_t recorded = live_bytes();
    Tensor ones_like_y = ones({100}, {.dtype = Dtype::float64});
    account->fail_nth(n);
    bool failed = false;
    try {
      backward(y, {.grad = ones_like_y});
    } catch (const memory::OutOfMemory&) {
      failed = true;
    }
    account->fail_nth(0);
    ones_like_y = Tensor();
    if (!failed) break;
    CHECK(live_bytes() <= recorded);
    CHECK(!a.grad().defined());
    y = Tensor();
    CHECK(live_bytes() == leaves);
  }
  CHECK(a.grad().to_vector<double>().front() == 4);
  a = b = Tensor();
  CHECK(live_bytes() == before);
}

TEST_CASE("effects happen once, on the buffer or on its shadow") {
  Tensor counter = zeros({}), shadow = zeros({});
  Tensor x = leaf(1);
  auto op = std::make_shared<Count>(counter);
  Tensor y = apply_one(op, {x}, Where::current());
  CHECK(counter.item<int>() == 1);
  op->forward({x}, {});  // a replay
  CHECK(counter.item<int>() == 1);
  std::vector<std::pair<Tensor, Tensor>> shadows{{counter, shadow}};
  {
    EffectScope scope(shadows);
    apply_one(op, {x}, Where::current());
  }
  CHECK(counter.item<int>() == 1);
  CHECK(shadow.item<int>() == 1);
}

TEST_CASE("a node knows the caller's line and the module path") {
  Tensor a = leaf(1), y;
  {
    ModuleScope outer("layer1"), inner("0.conv2");
    y = multiply(a, a);
  }
  const unsigned line = __LINE__ - 2;
  auto node = producer_of(y);
  CHECK(*node->module == "layer1.0.conv2");
  CHECK(std::string(node->where.file_name()).ends_with("autograd_test.cc"));
  CHECK(node->where.line() == line);
  CHECK(module_path().empty());
}

TEST_CASE("random addresses: ordinals per path, fresh in each scope, moved by the sample") {
  RandomAddress first, second, other;
  {
    RandomScope scope(1, 5);
    ModuleScope module("drop");
    first = next_random_address("dropout");
    second = next_random_address("dropout");
    ModuleScope deeper("more");
    other = next_random_address("dropout");
  }
  CHECK(first.key != second.key);
  CHECK(first.key != other.key);
  RandomScope again(1, 5, 32);
  ModuleScope module("drop");
  RandomAddress repeated = next_random_address("dropout");
  CHECK(repeated.key == first.key);
  CHECK(repeated.first_sample == 32);
  RandomScope later(1, 6);
  CHECK(next_random_address("dropout").key != first.key);
}

TEST_CASE("manual_seed starts the numbering outside scopes afresh") {
  manual_seed(3);
  RandomKey a = next_random_address("x").key, b = next_random_address("x").key;
  manual_seed(3);
  CHECK(next_random_address("x").key == a);
  CHECK(a != b);
}

TEST_CASE("gradcheck accepts a right backward and names the element of a wrong one") {
  Tensors inputs{uniform({3, 2}, -1, 1, RandomKey{1}, {.dtype = Dtype::float64}),
                 uniform({3, 2}, -1, 1, RandomKey{2}, {.dtype = Dtype::float64})};
  for (Tensor& input : inputs) input.set_requires_grad();
  auto with_sign = [](double sign) {
    return [sign](const Tensors& in) -> Tensors {
      return apply(std::make_shared<Multiply>(2.0, sign), in, Where::current());
    };
  };
  CHECK(gradcheck(with_sign(1), inputs).passed);
  GradcheckResult wrong = gradcheck(with_sign(-1), inputs);
  CHECK(!wrong.passed);
  CHECK(wrong.message.find("input 0, element") == 0);
}

TEST_CASE("gradients of two leaves never share storage") {
  class Pass final : public Op {
   public:
    const char* name() const override { return "pass"; }
    Tensors forward(const Tensors& in, const ForwardContext&) const override {
      return {clone(in[0])};
    }
    Tensors backward(BackwardCall& call) const override {
      Tensor dy = call.take_grad();
      return {dy, dy};
    }
  };
  Tensor a = leaf(1), b = leaf(2);
  backward(apply_one(std::make_shared<Pass>(), {a, b}, Where::current()));
  CHECK(a.grad().storage() != b.grad().storage());
}
