#include "brim/ops/add.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/tests/support/broadcast_reference.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

OpSample sample(const char* name, const Shape& a, const Shape& b, int64_t terms,
                std::vector<int> batched = {}) {
  return {.name = name,
          .inputs = {uniform(a, -2, 2, RandomKey{1}, {.dtype = Dtype::float64}),
                     uniform(b, -2, 2, RandomKey{2}, {.dtype = Dtype::float64})},
          .run = [](const Tensors& in) { return Tensors{add(in[0], in[1])}; },
          .reference =
              [](const Tensors& in) {
                return Tensors{testing::broadcast_reference(
                    in[0], in[1], [](double x, double y) { return x + y; })};
              },
          .backward_reduction = terms,
          .batched = std::move(batched)};
}

}  // namespace

TEST_CASE("add: spec") {
  check_op({.op = "add",
            .samples = {sample("same shape", {2, 3, 5, 4}, {2, 3, 5, 4}, 1, {0, 1}),
                        sample("scalar", {3, 7}, {}, 21, {0}),
                        sample("scalar first", {1}, {3, 7}, 21, {1}),
                        sample("per channel", {2, 3, 5, 4}, {4}, 30, {0}),
                        sample("per channel first", {1, 1, 3}, {11, 9, 3}, 99, {1}),
                        sample("many channels", {6, 70}, {70}, 6, {0}),
                        sample("per image and channel", {2, 3, 5, 4}, {2, 1, 1, 4}, 15, {0, 1}),
                        sample("per pixel", {2, 3, 5, 4}, {2, 3, 5, 1}, 4, {0, 1}),
                        sample("both repeated", {3, 1, 4}, {5, 1}, 12),
                        sample("empty", {3, 0}, {3, 1}, 1)},
            .errors = {
                {[] {
                   add(zeros({2, 3}), zeros({4}));
                 },
                 "add: shapes [2,3] and [4] do not broadcast"},
                {[] { add(zeros({2}), zeros({2}, {.dtype = Dtype::float64})); },
                 "add: expected one dtype, got float32 and float64"},
                {[] { add(zeros({2}), zeros({2}, {.device = Device::meta()})); },
                 "add: expected one device, got cpu and meta"},
                {[] { add(arange(2), arange(2)); }, "add: expected a floating dtype, got int64"}}});
}

TEST_CASE("add: both inputs of one shape get the gradient itself") {
  class Watch final : public autograd::OpObserver {
   public:
    void ran(const autograd::OpEvent& event) override {
      if (event.phase == autograd::Phase::backward)
        shared = event.outputs[0].is_same(event.outputs[1]);
    }
    bool shared = false;
  };
  Tensor a = ones({4}), b = ones({4});
  a.set_requires_grad();
  b.set_requires_grad();
  Watch watch;
  backward(add(a, b), {.grad = ones({4})});
  CHECK(watch.shared);
  // Leaves still end up with gradients of their own.
  CHECK(a.grad().storage() != b.grad().storage());
}

TEST_CASE("add: a tensor added to itself gets both gradients") {
  Tensor a = ones({4});
  a.set_requires_grad();
  backward(add(a, a), {.grad = ones({4})});
  CHECK(a.grad().to_vector<float>() == std::vector<float>{2, 2, 2, 2});
}

}  // namespace brim
