// What `Op::is_rowwise` promises: some rows of the inputs give the same rows of the result, to the
// bit.
#include <doctest/doctest.h>

#include "brim/core/row_view.h"
#include "brim/ops/ops.h"
#include "brim/tests/support/compare.h"

using namespace brim;

TEST_CASE("ops that work by rows make some rows of a result as they make all") {
  using Elementwise = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Elementwise> kOps[] = {
      {"relu", [](const Tensor& x, const Tensor&) { return relu(x); }},
      {"relu6", [](const Tensor& x, const Tensor&) { return relu6(x); }},
      {"hardswish", [](const Tensor& x, const Tensor&) { return hardswish(x); }},
      {"hardsigmoid", [](const Tensor& x, const Tensor&) { return hardsigmoid(x); }},
      {"leaky_relu", [](const Tensor& x, const Tensor&) { return leaky_relu(x); }},
      {"sigmoid", [](const Tensor& x, const Tensor&) { return sigmoid(x); }},
      {"silu", [](const Tensor& x, const Tensor&) { return silu(x); }},
      {"tanh", [](const Tensor& x, const Tensor&) { return tanh(x); }},
      {"gelu", [](const Tensor& x, const Tensor&) { return gelu(x); }},
      {"exp", [](const Tensor& x, const Tensor&) { return exp(x); }},
      {"log", [](const Tensor& x, const Tensor&) { return log(x); }},
      {"sqrt", [](const Tensor& x, const Tensor&) { return sqrt(x); }},
      {"abs", [](const Tensor& x, const Tensor&) { return abs(x); }},
      {"neg", [](const Tensor& x, const Tensor&) { return neg(x); }},
      {"add", [](const Tensor& x, const Tensor& y) { return add(x, y); }},
      {"sub", [](const Tensor& x, const Tensor& y) { return sub(x, y); }},
      {"mul", [](const Tensor& x, const Tensor& y) { return mul(x, y); }},
      {"div", [](const Tensor& x, const Tensor& y) { return div(x, y); }},
      {"squeeze_excitation",
       [](const Tensor& x, const Tensor&) {
         const TensorOptions options{.dtype = x.dtype()};
         auto weight = [&](const Shape& shape) { return uniform(shape, -3, 3, {3}, options); };
         return squeeze_excitation(x, weight({2, 1, 1, 7}), weight({2}), weight({7, 1, 1, 2}),
                                   weight({7}));
       }},
      {"concat",
       [](const Tensor& x, const Tensor&) {
         return concat({x, x}, 3);
       }},
  };
  for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
    // Rows that are no whole vectors, so that elements change their lanes.
    Tensor x = uniform({5, 3, 3, 7}, -4, 4, {1}, {.dtype = dtype});
    Tensor y = uniform({5, 1, 1, 7}, 1, 4, {2}, {.dtype = dtype});
    for (const auto& [name, op] : kOps) {
      const Tensor all = row_view(op(x, y), 1, 4);
      const Tensor some = op(row_view(x, 1, 4), row_view(y, 1, 4));
      CHECK_MESSAGE(testing::bit_difference(some, all) == "", std::string(name));
    }
  }
}
