#include "brim/ops/split.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/ops/concat.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

// Along the middle one of three axes.
Tensors reference(const Tensor& x, const std::vector<int64_t>& sizes) {
  std::vector<double> from = x.to_vector<double>();
  Tensors parts;
  int64_t begin = 0, rows = x.size(1), columns = x.size(2);
  for (int64_t size : sizes) {
    std::vector<double> to;
    for (int64_t i = 0; i < x.size(0); ++i)
      for (int64_t j = begin; j < begin + size; ++j)
        for (int64_t k = 0; k < columns; ++k)
          to.push_back(from[static_cast<size_t>((i * rows + j) * columns + k)]);
    parts.push_back(from_vector(to, {x.size(0), size, columns}));
    begin += size;
  }
  return parts;
}

template <class Size>
OpSample sample(const char* name, Size given, std::vector<int64_t> sizes, int axis = 1) {
  int64_t rows = 0;
  for (int64_t size : sizes) rows += size;
  return {.name = name,
          .inputs = {uniform({2, rows, 3}, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
          .run = [=](const Tensors& in) { return split(in[0], given, axis); },
          .reference = [=](const Tensors& in) { return reference(in[0], sizes); },
          .batched = {0}};
}

using Sizes = std::vector<int64_t>;

}  // namespace

TEST_CASE("split: spec") {
  Tensor x = ones({2, 3});
  check_op({.op = "split",
            .samples = {sample("parts of a size", int64_t{2}, {2, 2, 2}),
                        sample("a smaller last one", int64_t{3}, {3, 3, 1}, -2),
                        sample("a size beyond the whole", int64_t{9}, {4}),
                        sample("of none", int64_t{2}, {0}), sample("sizes", Sizes{1, 3}, {1, 3}),
                        sample("an empty one", Sizes{2, 0, 3}, {2, 0, 3})},
            .errors = {{[=] { split(x, 1, 2); }, "split: axis 2 is out of range for 2 dimensions"},
                       {[=] { split(x, 0, 1); }, "split: expected a size of at least 1, got 0"},
                       {[=] {
                          split(x, {1, 1}, 1);
                        },
                        "split: expected sizes that add up to 3 along axis 1 of [2,3], got [1,1]"},
                       {[=] {
                          split(x, {4, -1}, 1);
                        },
                        "split: expected sizes that add up to 3 along axis 1 of [2,3], got [4,-1]"},
                       {[=] { split(x, Sizes{}, 1); }, "got []"}}});
}

TEST_CASE("split: the parts are views, and concat puts them together again") {
  Tensor x = arange(10);
  Tensors parts = split(x, 4, 0);
  CHECK(parts.size() == 3);
  for (const Tensor& part : parts) CHECK(part.storage() == x.storage());
  CHECK(concat(parts, 0).to_vector<int64_t>() == x.to_vector<int64_t>());
}

TEST_CASE("split: parts that lead nowhere have a gradient of 0") {
  Tensor x = ones({5}).set_requires_grad();
  Tensors parts = split(x, {2, 1, 2}, 0);
  backward(parts[1], {.grad = ones({1})});
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 0, 1, 0, 0});
}

}  // namespace brim
