#include "brim/ops/sum.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/base/parallel.h"
#include "brim/tests/support/op_spec.h"
#include "brim/tests/support/sum_reference.h"

namespace brim {
namespace {

OpSample sample(const char* name, const Shape& shape, std::vector<int> axes, bool keepdim = false) {
  Tensor x = uniform(shape, -1, 2, RandomKey{1}, {.dtype = Dtype::float64});
  int64_t terms = testing::sum_reference(x, axes, keepdim).terms;
  return {.name = name,
          .inputs = {x},
          .run = [=](const Tensors& in) { return Tensors{sum(in[0], axes, {.keepdim = keepdim})}; },
          .reference =
              [=](const Tensors& in) {
                return Tensors{testing::sum_reference(in[0], axes, keepdim).sum};
              },
          .reduction = std::max<int64_t>(terms, 1),
          .backward_reduction = 1};
}

double sum_in_double(const Tensor& x) {
  double total = 0;
  for (double value : x.to_vector<double>()) total += value;
  return total;
}

}  // namespace

TEST_CASE("sum: spec") {
  Tensor x = ones({2, 3});
  check_op(
      {.op = "sum",
       .samples = {sample("all", {2, 3, 5, 4}, {}), sample("all, kept", {2, 3, 5, 4}, {}, true),
                   sample("channels", {2, 3, 5, 4}, {0, 1, 2}),
                   sample("pixels", {2, 3, 5, 4}, {1, 2}, true), sample("last", {6, 300}, {1}),
                   sample("first", {40, 7}, {0}), sample("alternating", {2, 3, 4, 5, 2}, {0, 2, 4}),
                   sample("middle", {2, 1, 3, 1, 5}, {1, 2, 3}),
                   sample("an axis of one", {3, 1, 2}, {1}), sample("scalar", {}, {}),
                   sample("blocks", {3, 1000}, {1}), sample("rows in blocks", {37, 2, 3}, {0}),
                   sample("nothing to add", {3, 0, 2}, {1}), sample("empty", {0, 4}, {1}),
                   sample("empty inside", {2, 3, 0}, {0}),
                   // Cut into pieces, whose sums go through scratch.
                   sample("long", {70'000}, {}), sample("long columns", {35'000, 3}, {0})},
       .errors = {{[=] { sum(x, {2}); }, "sum: axis 2 is out of range for 2 dimensions"},
                  {[=] {
                     sum(x, {0, -2});
                   },
                   "sum: axis -2 is named twice"},
                  {[] { sum(arange(3)); }, "sum: expected a floating dtype, got int64"}}});
}

TEST_CASE("sum: axes count from the end, in any order") {
  Tensor x = uniform({2, 3, 4}, -1, 1, RandomKey{1});
  CHECK(sum(x, {-1, 0}).to_vector<float>() == sum(x, {0, 2}).to_vector<float>());
  CHECK(sum(x, {-1}).shape() == Shape{2, 3});
}

TEST_CASE("sum: of a million float32 numbers is right to a rounding") {
  // One after the other in float, the error would be about a thousand times as large.
  Tensor x = uniform({1 << 20}, 0, 1, RandomKey{3});
  double exact = sum_in_double(x);
  CHECK(std::abs(sum(x).item<float>() - exact) <= exact * 0x1.0p-22);
  Tensor columns = sum(uniform({1 << 16, 16}, 0, 1, RandomKey{3}), {0});
  CHECK(std::abs(sum_in_double(columns) - exact) <= exact * 0x1.0p-22);
}

TEST_CASE("sum: has the same bits with any number of threads") {
  int before = num_threads();
  Tensor x = uniform({300, 50, 20}, -1, 1, RandomKey{3});
  for (const std::vector<int>& axes : {std::vector<int>{}, {0}, {2}, {0, 1}, {1, 2}, {0, 2}, {1}}) {
    set_num_threads(1);
    std::vector<float> one = sum(x, axes).to_vector<float>();
    set_num_threads(3);
    CHECK(sum(x, axes).to_vector<float>() == one);
  }
  set_num_threads(before);
}

}  // namespace brim
