// Ops that copy their gradient, or make a view of it, take it with strides: the same bits as of a
// copy in order.
#include <doctest/doctest.h>

#include <functional>

#include "brim/autograd/backward.h"
#include "brim/ops/ops.h"
#include "brim/tests/support/compare.h"

using namespace brim;

namespace {

// Its axes are the other way round in memory.
Tensor strided_like(const Tensor& y) {
  std::vector<int> axes;
  Shape reversed = y.shape();
  for (int i = 0; i < y.dim(); ++i) {
    axes.push_back(y.dim() - 1 - i);
    reversed[i] = y.size(y.dim() - 1 - i);
  }
  return permute(uniform(reversed, -1, 1, RandomKey{2}, {.dtype = y.dtype()}), axes);
}

struct Case {
  const char* name;
  std::function<Tensor(Tensor)> op;
};

const Case kCases[] = {
    {"slice",
     [](Tensor x) {
       return slice(std::move(x), {{1, {.step = 2}}, {2, {.end = 3}}});
     }},
    {"pad",
     [](Tensor x) {
       return pad(std::move(x), {{}, {1, 2}, {}});
     }},
    {"permute",
     [](Tensor x) {
       return permute(std::move(x), {0, 2, 1});
     }},
    {"concat",
     [](Tensor x) {
       return concat({x, x}, 1);
     }},
    {"split", [](Tensor x) { return split(std::move(x), 2, 1).front(); }},
    {"cast", [](Tensor x) { return cast(std::move(x), Dtype::float64); }},
};

using Gradient = std::function<Tensor(const Tensor& y)>;

Tensor gradient_of(const Case& c, const Gradient& dy) {
  Tensor x = uniform({3, 4, 5}, -1, 1, RandomKey{1}).set_requires_grad();
  const Tensor y = c.op(neg(x));
  backward(y, {.grad = dy(y)});
  return x.grad();
}

}  // namespace

TEST_CASE("a gradient with strides gives the bits of one in order") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const auto in_order = [](const Tensor& y) { return clone(strided_like(y)); };
    CHECK(testing::bit_difference(gradient_of(c, strided_like), gradient_of(c, in_order)) == "");
  }
}
