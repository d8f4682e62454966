// When backward says that a leaf is complete: once, with all of its gradient, and not before the
// last node that needs the leaf's value has run.
#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/core/launch.h"

using namespace brim;
using namespace brim::autograd;

namespace {

// y = a * b of float64 scalars. With `stops`, no gradient goes to a, though it is asked for.
class Product final : public Op {
 public:
  explicit Product(bool stops = false) : stops_(stops) {}
  const char* name() const override { return "product"; }
  Tensors forward(const Tensors& in, const ForwardContext&) const override {
    return {scalar(in[0], in[1])};
  }
  Saves saves(const Needs&) const override { return {.inputs = {0, 1}}; }
  Tensors backward(BackwardCall& call) const override {
    Tensor dy = call.take_grad();
    return {call.needs(0) && !stops_ ? scalar(dy, call.input(1)) : Tensor(),
            call.needs(1) ? scalar(dy, call.input(0)) : Tensor()};
  }

 private:
  static Tensor scalar(const Tensor& a, const Tensor& b) {
    return full({}, a.item<double>() * b.item<double>(), {.dtype = Dtype::float64});
  }
  bool stops_;
};

Tensor product(Tensor a, Tensor b, bool stops = false) {
  return apply_one(std::make_shared<Product>(stops), {std::move(a), std::move(b)},
                   Where::current());
}

Tensor constant(double value) { return full({}, value, {.dtype = Dtype::float64}); }
Tensor leaf(double value) { return constant(value).set_requires_grad(); }

// What backward says, in order: which leaves, with which gradient, after how many nodes. Each leaf
// is overwritten at once and its gradient dropped, as a fused update does.
struct Log final : OpObserver {
  explicit Log(std::vector<Tensor> leaves) : leaves(std::move(leaves)) {}
  void ran(const OpEvent& event) override { nodes += event.phase == Phase::backward ? 1 : 0; }
  void complete(const Tensor& leaf) {
    size_t which = 0;
    while (!leaves[which].is_same(leaf)) ++which;
    text += fmt::format("{}: {} after {}; ", static_cast<char>('a' + static_cast<char>(which)),
                        leaf.grad().item<double>(), nodes);
    fill(leaf, -1000);
    leaf.set_grad(Tensor());
  }
  std::string of(const Tensor& result) {
    backward(result, {.on_leaf_complete = [this](const Tensor& leaf) { complete(leaf); }});
    return text;
  }
  std::vector<Tensor> leaves;
  std::string text;
  int nodes = 0;
};

}  // namespace

TEST_CASE("a leaf used once is complete after its node, one used often after the first call") {
  Tensor a = leaf(2), b = leaf(3), c = leaf(5);
  // a is an input of the first, the third and the last product: a^3 b c.
  Tensor y = product(product(product(product(a, b), a), c), a);
  CHECK(Log({a, b, c}).of(y) == "c: 24 after 2; a: 180 after 4; b: 40 after 4; ");
  CHECK_FALSE(a.grad().defined());
}

TEST_CASE("both inputs of one call, and two paths that meet, count as they are") {
  Tensor a = leaf(3), b = leaf(2);
  Tensor square = product(a, a);
  CHECK(Log({a, b}).of(product(product(square, b), square)) == "b: 81 after 2; a: 216 after 3; ");
}

TEST_CASE("a leaf whose value is still to be read without an edge to it is told of later") {
  Tensor x = leaf(5), w = leaf(3);
  // The first product saves the storage of w for the gradient of x.
  Tensor y = product(product(x, w.detach()), w);
  CHECK(Log({w, x}).of(y) == "a: 15 after 2; b: 9 after 2; ");
}

TEST_CASE("calls to which no gradient flows hold nothing up but what they would have read") {
  Tensor a = leaf(2), b = leaf(3), c = leaf(5);
  Tensor y = product(product(product(a, b), c, /*stops=*/true), b);
  // b: from the last product alone. Its first use never runs, so it waits for the end of backward.
  CHECK(Log({a, b, c}).of(y) == "c: 18 after 2; b: 30 after 2; ");
  CHECK_FALSE(a.grad().defined());
}

TEST_CASE("a leaf with hooks is told of once they have run") {
  Tensor a = leaf(2), b = leaf(3);
  register_hook(a, [](const Tensor& grad) { return constant(10 * grad.item<double>()); });
  CHECK(Log({a, b}).of(product(product(product(a, b), a), constant(1))) ==
        "a: 120 after 3; b: 4 after 3; ");
}

TEST_CASE("a result that is a leaf is complete") {
  Tensor a = leaf(2);
  CHECK(Log({a}).of(a) == "a: 1 after 0; ");
}

TEST_CASE("a gradient from before is in it") {
  Tensor a = leaf(2);
  backward(product(a, constant(3)));
  CHECK(Log({a}).of(product(a, constant(4))) == "a: 7 after 1; ");
}

TEST_CASE("what a listener throws ends backward, and no gradient of the pass stays") {
  Tensor a = leaf(2), b = leaf(3);
  int64_t before = memory::account(Device::cpu())->stats().live;
  int told = 0;
  auto throwing = [&](const Tensor&) {
    if (++told == 1) throw std::runtime_error("enough");
  };
  {
    Tensor y = product(product(a, constant(1)), b);
    int64_t recorded = memory::account(Device::cpu())->stats().live;
    CHECK_THROWS_WITH(backward(y, {.on_leaf_complete = throwing}), "enough");
    CHECK(memory::account(Device::cpu())->stats().live <= recorded);
  }
  CHECK(told == 1);
  CHECK_FALSE(a.grad().defined());
  CHECK_FALSE(b.grad().defined());
  CHECK(memory::account(Device::cpu())->stats().live == before);
}

TEST_CASE("a million paths through few nodes are walked once each") {
  Tensor a = leaf(1), y = a;
  for (int i = 0; i < 1000; ++i) y = product(y, y);
  int told = 0;
  backward(y, {.on_leaf_complete = [&](const Tensor&) { ++told; }});
  CHECK(told == 1);
}

TEST_CASE("with the graph retained, saved tensors hold every leaf to the end") {
  Tensor a = leaf(2), b = leaf(3);
  Tensor y = product(a, b);
  std::vector<double> seen;
  auto listen = [&](const Tensor& leaf) { seen.push_back(leaf.grad().item<double>()); };
  backward(y, {.retain_graph = true, .on_leaf_complete = listen});
  backward(y, {.on_leaf_complete = listen});
  CHECK(seen == std::vector<double>{3, 2, 6, 4});
}

namespace {

// y = a b, whose gradient with respect to b comes in factors where backward takes them.
class Factored final : public Op {
 public:
  const char* name() const override { return "factored"; }
  Tensors forward(const Tensors& in, const ForwardContext&) const override {
    return {full({1}, in[0].item<double>() * in[1].item<double>(), {.dtype = Dtype::float64})};
  }
  Saves saves(const Needs&) const override { return {.inputs = {0, 1}}; }
  Tensors backward(BackwardCall& call) const override {
    const Tensor dy = call.take_grad(), a = call.input(0);
    const double da = dy.item<double>() * call.input(1).item<double>();
    Tensors grads{full({1}, da, {.dtype = Dtype::float64}), Tensor()};
    if (call.takes_factors(1))
      call.give_factors(1, {dy, a});
    else
      grads[1] = full({1}, dy.item<double>() * a.item<double>(), {.dtype = Dtype::float64});
    return grads;
  }
};

Tensor factored(Tensor a, Tensor b) {
  return apply_one(std::make_shared<Factored>(), {std::move(a), std::move(b)}, Where::current());
}

Tensor vector_leaf(double value) {
  return full({1}, value, {.dtype = Dtype::float64}).set_requires_grad();
}

struct Nodes final : OpObserver {
  void ran(const OpEvent& event) override { count += event.phase == Phase::backward ? 1 : 0; }
  int count = 0;
};

/// What backward says of each leaf, by its value: "3=10" a gradient, "3=2*5" factors, and after how
/// many nodes.
std::string told(const Tensor& result, bool retain_graph = false, double refused = 0) {
  std::string text;
  Nodes nodes;
  backward(result,
           {.retain_graph = retain_graph,
            .on_leaf_complete =
                [&](const Tensor& leaf) {
                  text += fmt::format("{}={}; ", leaf.item<double>(), leaf.grad().item<double>());
                },
            .takes_factors = [&](const Tensor& leaf) { return leaf.item<double>() != refused; },
            .on_leaf_factors =
                [&](const Tensor& leaf, const GradientFactors& factors) {
                  CHECK_FALSE(leaf.grad().defined());
                  text +=
                      fmt::format("{}={}*{} after {}; ", leaf.item<double>(),
                                  factors.a.item<double>(), factors.b.item<double>(), nodes.count);
                }});
  return text;
}

}  // namespace

TEST_CASE("a gradient comes in factors where it is the only one and somebody takes them") {
  const Tensor a = vector_leaf(2), b = vector_leaf(3), c = vector_leaf(5);
  CHECK(told(factored(factored(a, b), c)) == "5=1*6 after 1; 2=15; 3=5*2 after 2; ");
  CHECK(told(factored(factored(vector_leaf(2), b), c), false, /*refused=*/3) ==
        "5=1*6 after 1; 2=15; 3=10; ");
  // Without a listener, as ever.
  backward(factored(vector_leaf(2), c));
  CHECK(c.grad().item<double>() == 2);
}

TEST_CASE("one that is added to another, is seen by a hook or may be asked for again does not") {
  const Tensor twice = vector_leaf(3);
  CHECK(told(factored(factored(vector_leaf(2), twice), twice)) == "3=12; 2=9; ");
  const Tensor before = vector_leaf(3);
  before.set_grad(full({1}, 100, {.dtype = Dtype::float64}));
  CHECK(told(factored(vector_leaf(2), before)) == "2=3; 3=102; ");
  const Tensor hooked = vector_leaf(3);
  int seen = 0;
  register_hook(hooked, [&](const Tensor&) { return ++seen, Tensor(); });
  CHECK(told(factored(vector_leaf(2), hooked)) == "2=3; 3=2; ");
  CHECK(seen == 1);
  CHECK(told(factored(vector_leaf(2), vector_leaf(3)), /*retain_graph=*/true) == "2=3; 3=2; ");
}

TEST_CASE("factors wait for the last reader of the leaf's value") {
  const Tensor x = vector_leaf(5), w = vector_leaf(3);
  CHECK(told(factored(factored(x, w.detach()), w)) == "3=1*15 after 2; 5=9; ");
}

TEST_CASE("factors that are a leaf's own values are copied, as it may be overwritten first") {
  const Tensor x = vector_leaf(5), w = vector_leaf(3);
  double factor = 0;
  backward(factored(x, w), {.on_leaf_complete = [](const Tensor& leaf) { fill(leaf, -1000); },
                            .takes_factors = [](const Tensor&) { return true; },
                            .on_leaf_factors =
                                [&](const Tensor&, const GradientFactors& factors) {
                                  factor = factors.b.item<double>();
                                }});
  CHECK(x.item<double>() == -1000);
  CHECK(factor == 5);
}

TEST_CASE("factors are not given where nobody would be told of them") {
  const Tensor w = vector_leaf(3);
  backward(factored(vector_leaf(2), w), {.takes_factors = [](const Tensor&) { return true; }});
  CHECK(w.grad().item<double>() == 2);
}
