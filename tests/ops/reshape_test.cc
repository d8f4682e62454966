#include "brim/ops/reshape.h"

#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/ops/mul.h"
#include "brim/ops/permute.h"
#include "brim/tests/support/op_spec.h"

namespace brim {
namespace {

OpSample sample(const char* name, const Shape& from, const Shape& wanted, const Shape& to) {
  return {
      .name = name,
      .inputs = {uniform(from, -2, 2, RandomKey{1}, {.dtype = Dtype::float64})},
      .run = [=](const Tensors& in) { return Tensors{reshape(in[0], wanted)}; },
      .reference =
          [=](const Tensors& in) { return Tensors{from_vector(in[0].to_vector<double>(), to)}; }};
}

}  // namespace

TEST_CASE("reshape: spec") {
  Tensor x = ones({2, 3});
  check_op(
      {.op = "reshape",
       .samples = {sample("flatten", {2, 3, 4}, {2, -1}, {2, 12}),
                   sample("split", {12}, {3, 2, 2}, {3, 2, 2}), sample("to scalar", {1, 1}, {}, {}),
                   sample("same", {2, 3}, {2, 3}, {2, 3}), sample("empty", {0, 3}, {-1, 3}, {0, 3}),
                   sample("empty inside", {3, 0, 2}, {0}, {0})},
       .errors = {{[=] {
                     reshape(x, {4, -1});
                   },
                   "reshape: cannot make [4,-1] of [2,3], which has 6 elements"},
                  {[=] { reshape(x, {7}); }, "reshape: cannot make [7] of [2,3]"},
                  {[=] {
                     reshape(x, {-1, -1});
                   },
                   "reshape: expected at most one -1, got [-1,-1]"},
                  {[=] {
                     reshape(x, {-2, -3});
                   },
                   "reshape: expected sizes of at least 0, got [-2,-3]"},
                  {[] {
                     reshape(ones({0}), {0, -1});
                   },
                   "reshape: a size of [0,-1] cannot be inferred beside a 0"}}});
}

TEST_CASE("reshape: is a view of a contiguous tensor, a copy of another") {
  Tensor x = uniform({2, 3}, -1, 1, RandomKey{1});
  CHECK(reshape(x, {6}).storage() == x.storage());
  Tensor turned = permute(x, {1, 0});
  Tensor flat = reshape(turned, {6});
  CHECK(flat.storage() != x.storage());
  CHECK(flat.to_vector<float>() == turned.to_vector<float>());
}

TEST_CASE("reshape: writing to the source makes what was saved of the view stale") {
  Tensor x = ones({2, 3}), weight = ones({6}).set_requires_grad();
  Tensor y = mul(weight, reshape(x, {6}));
  fill(x, 3);
  CHECK_THROWS_AS(backward(y, {.grad = ones({6})}), AutogradError);
}

}  // namespace brim
