#include "brim/ops/concat.h"

#include <doctest/doctest.h>

#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// Along the middle one of three axes.
Tensor reference(const Tensors& in) {
  std::vector<double> to;
  int64_t length = 0;
  for (const Tensor& x : in) length += x.size(1);
  for (int64_t i = 0; i < in[0].size(0); ++i)
    for (const Tensor& x : in) {
      std::vector<double> from = x.to_vector<double>();
      int64_t row = x.size(1) * x.size(2);
      to.insert(to.end(), from.begin() + i * row, from.begin() + (i + 1) * row);
    }
  return from_vector(to, {in[0].size(0), length, in[0].size(2)});
}

OpSample sample(const char* name, int64_t outer, const std::vector<int64_t>& sizes, int64_t inner,
                int axis) {
  OpSample sample{.name = name,
                  .run = [=](const Tensors& in) { return Tensors{concat(in, axis)}; },
                  .reference = [](const Tensors& in) { return Tensors{reference(in)}; }};
  for (size_t i = 0; i < sizes.size(); ++i) {
    sample.inputs.push_back(uniform({outer, sizes[i], inner}, -2, 2, derive(RandomKey{1}, i),
                                    {.dtype = Dtype::float64}));
    sample.batched.push_back(static_cast<int>(i));
  }
  return sample;
}

}  // namespace

TEST_CASE("concat: spec") {
  Tensor x = ones({2, 3});
  check_op(
      {.op = "concat",
       .samples = {sample("two", 2, {3, 1}, 4, 1), sample("three", 3, {1, 2, 3}, 1, -2),
                   sample("one", 2, {3}, 2, 1), sample("with an empty one", 2, {2, 0, 1}, 3, 1),
                   sample("first axis", 1, {2, 5}, 3, 1)},
       .errors = {{[] { concat({}, 0); }, "concat: expected at least one tensor"},
                  {[=] {
                     concat({x, ones({2, 4})}, 0);
                   },
                   "concat: expected shapes that differ in axis 0 alone, got [2,3] and [2,4]"},
                  {[=] {
                     concat({x, ones({2})}, 1);
                   },
                   "concat: expected shapes that differ in axis 1 alone, got [2,3] and [2]"},
                  {[=] {
                     concat({x, zeros({2, 3}, {.dtype = Dtype::float16})}, 0);
                   },
                   "concat: expected one dtype, got float32 and float16"},
                  {[=] {
                     concat({x, x}, 2);
                   },
                   "concat: axis 2 is out of range for 2 dimensions"}}});
}

TEST_CASE("concat: of a tensor with itself, and of whole numbers") {
  Tensor x = arange(2);
  CHECK(concat({x, x}, 0).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 0, 1});
}

}  // namespace brim
