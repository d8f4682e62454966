// Backward on five numbers, and what it does at each turn.
#include <cmath>
#include <cstdio>

#include "brim/autograd/backward.h"
#include "brim/autograd/gradcheck.h"
#include "brim/autograd/node.h"
#include "brim/memory/out_of_memory.h"
#include "brim/ops/ops.h"

using namespace brim;

namespace {

Tensor leaf(double value) { return full({}, value, {.dtype = Dtype::float64}).set_requires_grad(); }

void example() {
  // [example]
  Tensor a = leaf(2), b = leaf(3);
  Tensor s = mul(a, b);  //  6
  Tensor t = add(s, a);  //  8
  Tensor L = mul(t, s);  // 48
  backward(L);
  check(a.grad().item<double>() == 48, "dL/da");
  check(b.grad().item<double>() == 28, "dL/db");
  // [/example]
}

void order() {
  Tensor a = leaf(2), b = leaf(3);
  Tensor s = mul(a, b), t = add(s, a), L = mul(t, s);
  struct Printer final : autograd::OpObserver {
    void ran(const autograd::OpEvent& event) override {
      if (event.phase != autograd::Phase::backward) return;
      order += event.op.name();
      for (const Tensor& grad : event.outputs) order += " " + std::to_string(grad.item<int>());
      order += "; ";
    }
    std::string order;
  };
  Printer printer;
  backward(L);
  check(printer.order == "mul 6 8; add 6 6; mul 42 28; ", "one line of the table each");
}

void accumulation() {
  // [accumulate]
  Tensor w = leaf(3);
  backward(mul(w, leaf(2)));
  backward(mul(w, leaf(5)));
  check(w.grad().item<double>() == 7, "2 + 5: a second backward adds");
  w.set_grad(Tensor());  // what zero_grad() does
  // [/accumulate]

  backward(mul(w, leaf(2)), {.grad = full({}, 0.5, {.dtype = Dtype::float64})});
  backward(mul(w, leaf(5)), {.grad = full({}, 0.5, {.dtype = Dtype::float64})});
  check(w.grad().item<double>() == 3.5, "the gradient of the mean of both losses");
}

void versions() {
  // [version]
  Tensor a = leaf(2), b = full({}, 3, {.dtype = Dtype::float64});
  Tensor y = mul(a, b);  // saves b, at version 1: full() wrote it
  fill(b, 4);            // version 2
  try {
    backward(y);
    check(false, "not reached");
  } catch (const AutogradError& error) {
    check(std::string(error.what()) ==
              "mul: a saved tensor of shape [] was overwritten by 'fill' after the forward pass",
          "refused, naming the op and the writer");
  }
  // [/version]
}

void freed() {
  constexpr int64_t kBuffer = 256 * 1024;
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  // [freed]
  Tensor x = full({64, 1024}, 1).set_requires_grad();  // one buffer of 256 KiB
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = relu(std::move(y));
  check(account->stats().live == 11 * kBuffer, "x, and ten outputs that the tape holds");

  account->reset_peak();
  backward(sum(std::move(y)));
  check(account->stats().live == 2 * kBuffer, "x and its gradient");
  // [/freed]
  std::printf("freed: peak %.4f\n",
              static_cast<double>(account->stats().peak_live) / static_cast<double>(kBuffer));
}

void long_chain() {
  Tensor x = leaf(1), y = x;
  for (int i = 0; i < 100'000; ++i) y = relu(std::move(y));
  y = Tensor();  // 100,000 nodes go, in a loop
}

void hooks() {
  // [hook]
  Tensor x = leaf(3), y = mul(x, x);
  double seen = 0;
  register_hook(y, [&](const Tensor& grad) {
    seen = grad.item<double>();
    return mul(grad, full({}, 0.5, {.dtype = Dtype::float64}));  // go on with half of it
  });
  backward(mul(y, y));
  check(seen == 18, "dL/dy = 2 y");
  check(x.grad().item<double>() == 9 * 2 * 3, "half of it, times dy/dx = 2 x");
  // [/hook]
}

void complete_leaves() {
  // [complete]
  Tensor a = leaf(2), b = leaf(3);
  auto step = [](const Tensor& w) {  // w = w - 0.1 dL/dw
    fill(w, w.item<double>() - 0.1 * w.grad().item<double>());
    w.set_grad(Tensor());
  };
  Tensor s = mul(a, b), t = add(s, a);
  backward(mul(t, s), {.on_leaf_complete = step});
  check(std::abs(a.item<double>() - (2 - 4.8)) < 1e-12, "48, from #2 and #1 together");
  check(std::abs(b.item<double>() - (3 - 2.8)) < 1e-12, "28");
  check(!a.grad().defined() && !b.grad().defined(), "gone before backward returned");
  // [/complete]
}

void checked() {
  // [gradcheck]
  TensorOptions float64{.dtype = Dtype::float64};
  Tensor x = uniform({4, 5}, -1, 1, RandomKey{1}, float64).set_requires_grad();
  Tensor w = uniform({3, 5}, -1, 1, RandomKey{2}, float64).set_requires_grad();
  GradcheckResult result = gradcheck(
      [](const Tensors& in) { return Tensors{softmax(linear(in[0], in[1], {}))}; }, {x, w});
  check(result.passed, "all 35 elements");
  // [/gradcheck]
}

}  // namespace

int main() {
  example();
  order();
  accumulation();
  versions();
  freed();
  long_chain();
  hooks();
  complete_leaves();
  checked();
}
