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
