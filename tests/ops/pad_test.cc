#include "brim/ops/pad.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

Tensor reference(const Tensor& x, const std::vector<AxisPadding>& padding, double value) {
  Shape shape = x.shape();
  for (int axis = 0; axis < x.dim(); ++axis)
    shape[axis] +=
        padding[static_cast<size_t>(axis)].before + padding[static_cast<size_t>(axis)].after;
  std::vector<double> from = x.to_vector<double>();
  std::vector<double> to(static_cast<size_t>(numel(shape)), value);
  for (size_t i = 0; i < from.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0, stride = 1;
    for (int axis = x.dim() - 1; axis >= 0; --axis) {
      at += (rest % x.shape()[axis] + padding[static_cast<size_t>(axis)].before) * stride;
      rest /= x.shape()[axis];
      stride *= shape[axis];
    }
    to[static_cast<size_t>(at)] = from[i];
  }
  return from_vector(to, shape);
}

OpSample sample(const char* name, const Shape& shape, std::vector<AxisPadding> padding,
                double value = 0) {
  return {
      .name = name,
      .inputs = {uniform(shape, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
      .run = [=](const Tensors& in) { return Tensors{pad(in[0], padding, {.value = value})}; },
      .reference = [=](const Tensors& in) { return Tensors{reference(in[0], padding, value)}; }};
}

}  // namespace

TEST_CASE("pad: spec") {
  Tensor x = ones({2, 3});
  check_op({.op = "pad",
            .samples = {sample("images", {2, 3, 4, 5}, {{}, {1, 1}, {2, 1}, {}}),
                        sample("channels, with a value", {2, 3, 2}, {{}, {}, {1, 3}}, -1.5),
                        sample("first axis", {2, 3}, {{1, 0}, {}}, 2),
                        sample("every axis", {2, 3, 2}, {{1, 2}, {3, 0}, {0, 1}}),
                        sample("none", {2, 3}, {{}, {}}), sample("scalar", {}, {}),
                        sample("border alone", {0, 3}, {{1, 1}, {}}, 4),
                        sample("still empty", {2, 0}, {{1, 1}, {}})},
            .errors = {{[=] {
                          pad(x, {{1, 1}});
                        },
                        "pad: expected padding for the 2 axes of [2,3], got 1 entries"},
                       {[=] {
                          pad(x, {{1, 1}, {0, -1}});
                        },
                        "pad: expected padding of at least 0, got 0 and -1 for axis 1"},
                       {[=] {
                          pad(x, {{INT64_MAX, INT64_MAX}, {}});
                        },
                        "for axis 0 is too large"}}});
}

TEST_CASE("pad: takes whole numbers too") {
  Tensor y = pad(from_vector<uint8_t>({1, 2}, {2}), {{1, 2}}, {.value = 9});
  CHECK(y.to_vector<int32_t>() == std::vector<int32_t>{9, 1, 2, 9, 9});
}

TEST_CASE("pad: the leaf's gradient starts on a boundary, though the border moves it") {
  Tensor x = zeros({20}).set_requires_grad();
  backward(pad(x, {{1, 1}}), {.grad = arange(22, {.dtype = Dtype::float32})});
  CHECK(x.grad().to_vector<float>()[19] == 20);
  CHECK(reinterpret_cast<uintptr_t>(x.grad().data()) % memory::kAlignment == 0);
}

}  // namespace brim
