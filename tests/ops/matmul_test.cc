#include "brim/ops/matmul.h"

#include <doctest/doctest.h>

#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

/// Element of a tensor of values at `index`, whose axes of size 1 broadcast; `index` may be longer.
double at(const Tensor& x, const std::vector<double>& values, const Shape& index) {
  int64_t place = 0;
  for (int i = 0; i < x.dim(); ++i) {
    int64_t k = index[index.size() - x.dim() + i];
    place = place * x.size(i) + (x.size(i) == 1 ? 0 : k);
  }
  return values[static_cast<size_t>(place)];
}

Tensors reference(const Tensors& in) {
  const Tensor &a = in[0], &b = in[1];
  auto a_values = a.to_vector<double>(), b_values = b.to_vector<double>();
  int rank = std::max(a.dim(), b.dim());
  auto size = [&](const Tensor& x, int axis) {
    return axis < rank - x.dim() ? 1 : x.size(axis - (rank - x.dim()));
  };
  Shape shape;
  for (int i = 0; i < rank - 2; ++i) shape.push_back(size(a, i) == 1 ? size(b, i) : size(a, i));
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-1));
  std::vector<double> y;
  for (int64_t flat = 0; flat < numel(shape); ++flat) {
    Shape left = shape, right;
    int64_t rest = flat;
    for (int i = rank - 1; i >= 0; --i) {
      left[i] = rest % shape[i];
      rest /= shape[i];
    }
    right = left;
    double sum = 0;
    for (int64_t p = 0; p < a.size(-1); ++p) {
      left[rank - 1] = p;
      right[rank - 2] = p;
      sum += at(a, a_values, left) * at(b, b_values, right);
    }
    y.push_back(sum);
  }
  return {from_vector(y, shape)};
}

OpSample sample(const char* name, const Shape& a, const Shape& b) {
  auto random = [](const Shape& shape, uint64_t key) {
    return uniform(shape, -1, 1, RandomKey{key}, {.dtype = Dtype::float64});
  };
  return {.name = name,
          .inputs = {random(a, 1), random(b, 2)},
          .run = [](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; },
          .reference = reference,
          .reduction = a.back(),
          .backward_reduction = numel(a) + numel(b)};
}

}  // namespace

TEST_CASE("matmul: spec") {
  check_op(
      {.op = "matmul",
       .samples =
           {sample("matrices", {5, 7}, {7, 3}), sample("larger than a tile", {13, 20}, {20, 37}),
            sample("long sum", {2, 520}, {520, 3}), sample("row times column", {1, 4}, {4, 1}),
            sample("column times row", {4, 1}, {1, 5}), sample("batch", {2, 3, 4}, {2, 4, 5}),
            sample("two axes of batch", {2, 3, 4, 5}, {2, 3, 5, 2}),
            sample("batch times matrix", {3, 2, 4}, {4, 5}),
            sample("batch times a batch of one", {3, 2, 4}, {1, 4, 5}),
            sample("matrix times batch", {2, 4}, {3, 4, 5}),
            sample("both broadcast", {2, 1, 3, 4}, {3, 4, 2}), sample("no terms", {2, 0}, {0, 3}),
            sample("no rows", {0, 2}, {2, 3}), sample("no batch", {0, 2, 3}, {0, 3, 2}),
            sample("no batch, broadcast", {0, 2, 3}, {1, 3, 2})},
       .errors = {{[] {
                     matmul(zeros({2, 3}), zeros({4, 5}));
                   },
                   "matmul: expected [...,m,k] and [...,k,n] with one k, got [2,3] and [4,5]"},
                  {[] {
                     matmul(zeros({3}), zeros({3, 5}));
                   },
                   "expected two tensors of rank 2 or more, got [3] and [3,5]"},
                  {[] {
                     matmul(zeros({2, 2, 3}), zeros({3, 3, 5}));
                   },
                   "do not broadcast"},
                  {[] {
                     matmul(zeros({2, 3}), zeros({3, 5}, {.dtype = Dtype::float64}));
                   },
                   "expected one dtype, got float32 and float64"}}});
}

}  // namespace brim
