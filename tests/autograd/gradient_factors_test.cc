// When backward takes a gradient in factors, and who is told of it when.
#include <doctest/doctest.h>

#include "brim/autograd/backward.h"

using namespace brim;
using namespace brim::autograd;

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

TEST_CASE("observers are shown the factors, and make the gradient from them") {
  struct Seen final : OpObserver {
    void ran(const OpEvent& event) override {
      if (event.phase != Phase::backward) return;
      const bool factored = event.factors != nullptr;
      CHECK(event.factored == (factored ? 1 : -1));
      CHECK(event.outputs[1].defined() != factored);
      gradients.push_back((factored ? factored_gradient(event) : event.outputs[1]).item<double>());
    }
    std::vector<double> gradients;
  } seen;
  const Tensor a = vector_leaf(2), b = vector_leaf(3), c = vector_leaf(5);
  told(factored(factored(a, b), c), false, /*refused=*/5);
  CHECK(seen.gradients == std::vector<double>{2 * 3, 5 * 2});

  const Tensor x = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});  // [M, K]
  const Tensor y = from_vector<float>({1, 10, 100, 1000}, {2, 2});  // [M, N]
  CHECK(product_on_host({x, y}, {3, 1, 2}).to_vector<float>() ==
        std::vector<float>{401, 4010, 502, 5020, 603, 6030});
  CHECK_FALSE(product_on_host({empty({2, 3}, {.device = Device::meta()}), y}, {3, 2}).defined());
}
