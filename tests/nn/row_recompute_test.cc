// Dropped inputs that backward makes again by some rows at a time: the same bits as where they are
// kept, each row made once, and never the whole at once.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "brim/autograd/backward.h"
#include "brim/autograd/free_recomputation.h"
#include "brim/autograd/in_place.h"
#include "brim/autograd/node.h"
#include "brim/autograd/op.h"
#include "brim/memory/out_of_memory.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/ops.h"
#include "brim/tests/support/replays.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int64_t kSize = 64, kChannels = 64;  // a slice has two images

/// Drops whatever one pass makes, also from what was dropped.
struct DropOnePass final : autograd::SavePolicy {
  autograd::Decision decide(const autograd::RecordedCall& call) override {
    if (!call.node.op->is_one_pass()) return {};
    std::vector<autograd::Fate> fates(call.node.outputs.size(), autograd::Fate::keep);
    fates.front() = autograd::Fate::retain;
    return {.fates = std::move(fates)};
  }
};

/// Drops everything: what is made again is held (`retain`), or dropped again (`remake`).
struct DropAll final : autograd::SavePolicy {
  explicit DropAll(autograd::Fate fate) : fate(fate) {}
  autograd::Decision decide(const autograd::RecordedCall& call) override {
    return {.fates = std::vector(call.node.outputs.size(), fate)};
  }
  autograd::Fate fate;
};

enum class Drops { nothing, free, one_pass, all, remake };

struct Result {
  std::vector<std::vector<double>> gradients;
  int64_t rows = 0, most = 0;
  std::map<std::string, int64_t> rows_of, most_of;  // by op
};

using Function = std::function<Tensor(const Tensors&)>;

Result run(const Function& function, const Tensors& values, Drops drops, bool twice = false) {
  Tensors inputs;
  for (const Tensor& value : values) inputs.push_back(clone(value).set_requires_grad());
  autograd::FreeRecomputation free;
  DropOnePass one_pass;
  DropAll all(autograd::Fate::retain), remake(autograd::Fate::remake);
  autograd::SavePolicy* policies[] = {nullptr, &free, &one_pass, &all, &remake};
  autograd::InPlaceScope in_place(true);
  Tensor y = [&] {
    autograd::SavePolicyScope scope(policies[static_cast<int>(drops)]);
    return function(inputs);
  }();
  Replays replays;
  Tensor dy = normal(y.shape(), 1, {9}, {.dtype = y.dtype()});
  if (twice) {
    backward(y, {.grad = dy, .retain_graph = true});
    for (const Tensor& input : inputs) input.set_grad({});
  }
  backward(y, {.grad = dy});
  Result result{.rows = replays.rows,
                .most = replays.most_rows,
                .rows_of = replays.rows_of,
                .most_of = replays.most_rows_of};
  for (const Tensor& input : inputs) result.gradients.push_back(input.grad().to_vector<double>());
  return result;
}

Tensor batch_norm_of(const Tensors& in, BatchNormOptions options = {}) {
  return batch_norm(in[0], in[1], in[2], Tensor(), Tensor(), std::move(options));
}

struct Convolution {
  const char* name;
  Shape weight;
  Conv2dOptions options = {};
  bool transposed = false;
  bool does_little = false;  ///< beside the pass that makes its input again
};

const Convolution kConvolutions[] = {
    {"3x3", {8, 3, 3, kChannels}, {.padding = 1}},
    {"3x3, stride 2", {16, 3, 3, kChannels}, {.stride = 2, .padding = 1}},
    {"1x1", {24, 1, 1, kChannels}},
    {"1x1, stride 2", {8, 1, 1, kChannels}, {.stride = 2}, false, true},
    {"4 groups", {16, 3, 3, kChannels / 4}, {.padding = 1, .groups = 4}},
    {"depthwise", {kChannels, 3, 3, 1}, {.padding = 1, .groups = kChannels}, false, true},
    {"depthwise, stride 2",
     {kChannels, 3, 3, 1},
     {.stride = 2, .padding = 1, .groups = kChannels},
     false,
     true},
    {"depthwise 5x5", {kChannels, 5, 5, 1}, {.padding = 2, .groups = kChannels}},
    {"transposed", {kChannels, 2, 2, 16}, {.stride = 2}, true},
};

Function network(const Convolution& c) {
  return [c](const Tensors& in) {
    Tensor x = batch_norm_of(in, {.activation = Activation::relu6});
    if (c.transposed)
      return conv_transpose2d(std::move(x), in[3], Tensor(), {.stride = c.options.stride});
    return conv2d(std::move(x), in[3], Tensor(), c.options);
  };
}

/// What is normalised, the weight and bias of that, and the weight of a convolution.
Tensors inputs_for(int64_t images, const Shape& weight, Dtype dtype = Dtype::float32) {
  TensorOptions options{.dtype = dtype};
  return {normal({images, kSize, kSize, kChannels}, 1, {1}, options),
          normal({kChannels}, 1, {2}, options), normal({kChannels}, 1, {3}, options),
          normal(weight, 1, {4}, options)};
}

void check_same(const Result& got, const Result& expected) {
  REQUIRE(got.gradients.size() == expected.gradients.size());
  for (size_t i = 0; i < got.gradients.size(); ++i)
    CHECK_MESSAGE((got.gradients[i] == expected.gradients[i]), "gradient ", i);
}

}  // namespace

TEST_CASE("the weight gradient of a dropped input has the same bits, slice by slice") {
  for (const Convolution& c : kConvolutions)
    for (Dtype dtype : {Dtype::float32, Dtype::float64})
      for (int64_t images : {1, 4, 5}) {
        if (dtype == Dtype::float64 && images == 4) continue;
        CAPTURE(std::string(c.name));
        CAPTURE(to_string(dtype));
        CAPTURE(images);
        const Tensors inputs = inputs_for(images, c.weight, dtype);
        const Result kept = run(network(c), inputs, Drops::nothing);
        const Result dropped = run(network(c), inputs, Drops::one_pass);
        CHECK(kept.rows == 0);
        CHECK(dropped.rows == images);
        CHECK(dropped.most == std::min<int64_t>(images, 2));
        check_same(dropped, kept);
        const Result free = run(network(c), inputs, Drops::free);
        // Of one image there are no slices: what is read as a whole is made again as ever.
        CHECK(free.rows == (c.does_little && images > 1 ? 0 : images));
        check_same(free, kept);
      }
}

TEST_CASE("halves, whose sums are in float32, are read as a whole") {
  const Convolution& c = kConvolutions[0];
  const Tensors inputs = inputs_for(5, c.weight, Dtype::bfloat16);
  const Result free = run(network(c), inputs, Drops::free);
  check_same(free, run(network(c), inputs, Drops::nothing));
  CHECK(free.most == 5);
}

TEST_CASE(
    "the result of squeeze-and-excitation is made again by rows, from gates that were saved") {
  for (Dtype dtype : {Dtype::float32, Dtype::float64})
    // Where the first weight wants no gradient, backward does not read the averages.
    for (bool frozen : {false, true}) {
      CAPTURE(frozen);
      const Function block = [frozen](const Tensors& in) {
        const Tensor first = frozen ? in[3].detach() : in[3];
        return conv2d(squeeze_excitation(in[0], first, in[1], in[3], in[2]), in[3], Tensor());
      };
      const Tensors inputs = inputs_for(6, {kChannels, 1, 1, kChannels}, dtype);
      const Result kept = run(block, inputs, Drops::nothing);
      for (Drops drops : {Drops::free, Drops::one_pass, Drops::all, Drops::remake}) {
        const Result dropped = run(block, inputs, drops);
        check_same(dropped, kept);
        CHECK(dropped.rows == 6);
        CHECK(dropped.most == 2);
      }
    }
}

TEST_CASE("a graph that is retained makes its rows again each time") {
  const Convolution& c = kConvolutions[2];
  const Tensors inputs = inputs_for(6, c.weight);
  const Result twice = run(network(c), inputs, Drops::free, /*twice=*/true);
  check_same(twice, run(network(c), inputs, Drops::nothing));
  CHECK(twice.rows == 12);
  CHECK(twice.most == 2);
}

TEST_CASE("the result of batch norm with a residual is never there as a whole in backward") {
  // Read by two convolutions, and by batch norm itself for the derivative of its activation.
  for (Activation activation : {Activation::relu, Activation::relu6})
    for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
      const Function block = [activation](const Tensors& in) {
        Tensor y = batch_norm_of(in, {.residual = in[4], .activation = activation});
        Tensor first = conv2d(y, in[3], Tensor());
        return add(std::move(first), conv2d(std::move(y), in[3], Tensor()));
      };
      Tensors inputs = inputs_for(6, {8, 1, 1, kChannels}, dtype);
      inputs.push_back(normal(inputs[0].shape(), 1, {5}, {.dtype = dtype}));
      const Result dropped = run(block, inputs, Drops::one_pass);
      check_same(dropped, run(block, inputs, Drops::nothing));
      CHECK(dropped.rows == 2 * 6);
      CHECK(dropped.most == 2);
    }
}

TEST_CASE("batch norm finds where it was flat from a residual, whatever else wants a gradient") {
  const Tensors inputs = inputs_for(2, {8, 1, 1, kChannels});
  const Tensor residual = normal(inputs[0].shape(), 1, {5});
  for (int wanted = 0; wanted < 4; ++wanted) {
    auto gradient = [&](Drops drops) {
      const Function block = [&](const Tensors& in) {
        Tensors mixed = inputs;
        if (wanted < 3) mixed[static_cast<size_t>(wanted)] = in[0];
        return batch_norm_of(
            mixed, {.residual = wanted == 3 ? in[0] : residual, .activation = Activation::relu});
      };
      return run(block, {wanted == 3 ? residual : inputs[static_cast<size_t>(wanted)]}, drops);
    };
    CAPTURE(wanted);
    check_same(gradient(Drops::one_pass), gradient(Drops::nothing));
    CHECK(gradient(Drops::one_pass).rows == 0);
  }
}

TEST_CASE("rows go through a chain of dropped values, with what is broadcast to them") {
  const Tensor gate = normal({6, 1, 1, kChannels}, 1, {5});
  const Function chain = [&](const Tensors& in) {
    Tensor y = mul(batch_norm_of(in), gate);
    return conv2d(add(std::move(y), in[2]), in[3], Tensor());
  };
  const Tensors inputs = inputs_for(6, {8, 1, 1, kChannels});
  const Result dropped = run(chain, inputs, Drops::one_pass);
  check_same(dropped, run(chain, inputs, Drops::nothing));
  CHECK(dropped.rows == 3 * 6);
  CHECK(dropped.most == 2);
}

TEST_CASE("what another convolution will read too is made once, as a whole") {
  const Function fork = [](const Tensors& in) {
    Tensor y = batch_norm_of(in);
    Tensor first = conv2d(y, in[3], Tensor());
    return add(std::move(first), conv2d(add(std::move(y), in[2]), in[3], Tensor()));
  };
  const Tensors inputs = inputs_for(6, {8, 1, 1, kChannels});
  const Result dropped = run(fork, inputs, Drops::one_pass);
  check_same(dropped, run(fork, inputs, Drops::nothing));
  CHECK(dropped.rows == 2 * 6);
  CHECK(dropped.most == 6);
}

TEST_CASE("rows are made from what has to be made again as a whole itself") {
  // Batch norm will read the first convolution's result too.
  const Function block = [](const Tensors& in) {
    Tensor x = conv2d(in[0], in[4], Tensor());
    const BatchNormOptions activated{.activation = Activation::relu};
    return conv2d(batch_norm_of({std::move(x), in[1], in[2]}, activated), in[3], Tensor());
  };
  Tensors inputs = inputs_for(6, {8, 1, 1, kChannels});
  inputs.push_back(normal({kChannels, 1, 1, kChannels}, 0.1, {5}));
  const Result dropped = run(block, inputs, Drops::all);
  check_same(dropped, run(block, inputs, Drops::nothing));
  CHECK(dropped.most_of == std::map<std::string, int64_t>{{"batch_norm", 2}, {"conv2d", 6}});
}

TEST_CASE("a source that was made again for rows is dropped with them, and made for the next") {
  const Function forked = [](const Tensors& in) {
    Tensor inner = conv2d(in[0], in[3], Tensor());
    Tensor y = batch_norm(std::move(inner), in[1], in[2], Tensor(), Tensor(),
                          {.activation = Activation::relu});
    Tensor first = conv2d(y, in[3], Tensor());
    return add(std::move(first), conv2d(std::move(y), in[3], Tensor()));
  };
  const Tensors inputs = inputs_for(6, {kChannels, 1, 1, kChannels});
  const Result dropped = run(forked, inputs, Drops::remake);
  check_same(dropped, run(forked, inputs, Drops::nothing));
  // The inner convolution, of all rows: for both that read its result by rows, and for batch norm.
  CHECK(dropped.rows_of.at("conv2d") == 3 * 6);
  CHECK(dropped.most_of == std::map<std::string, int64_t>{{"batch_norm", 2}, {"conv2d", 6}});
}

TEST_CASE("what is joined along channels is joined again by rows") {
  const Function block = [](const Tensors& in) {
    return conv2d(concat({batch_norm_of(in), in[0]}, 3), in[3], Tensor());
  };
  const Tensors inputs = inputs_for(6, {8, 1, 1, 2 * kChannels});
  const Result dropped = run(block, inputs, Drops::all);
  check_same(dropped, run(block, inputs, Drops::nothing));
  CHECK(dropped.most_of == std::map<std::string, int64_t>{{"batch_norm", 1}, {"concat", 1}});
}

TEST_CASE("batch norm finds where it was flat from a residual that is made again for it") {
  const Function block = [](const Tensors& in) {
    const BatchNormOptions options{.residual = add(in[0], in[3]), .activation = Activation::relu};
    return add(batch_norm_of(in, options), in[0]);
  };
  Tensors inputs = inputs_for(6, {8, 1, 1, kChannels});
  inputs[3] = normal(inputs[0].shape(), 1, {5});
  const Result dropped = run(block, inputs, Drops::all);
  check_same(dropped, run(block, inputs, Drops::nothing));
  CHECK(dropped.most_of == std::map<std::string, int64_t>{{"add", 6}});
}

TEST_CASE("random numbers are not drawn by rows") {
  const Function dropped_out = [](const Tensors& in) {
    autograd::RandomScope random(/*seed=*/5, /*update=*/0, /*first_sample=*/0);
    return conv2d(dropout(in[0], {.p = 0.3}), in[3], Tensor());
  };
  const Tensors inputs = inputs_for(6, {8, 1, 1, kChannels});
  const Function with_others = [&](const Tensors& in) {
    return add(dropped_out(in), conv2d(batch_norm_of(in), in[3], Tensor()));
  };
  const Result dropped = run(with_others, inputs, Drops::one_pass);
  check_same(dropped, run(with_others, inputs, Drops::nothing));
  CHECK(dropped.most == 6);
  CHECK(dropped.rows == 2 * 6);
}

TEST_CASE("rows of what was overwritten since are refused, and named with what wrote it") {
  Tensors in = inputs_for(6, {8, 1, 1, kChannels});
  for (Tensor& input : in) input.set_requires_grad();
  autograd::FreeRecomputation policy;
  autograd::SavePolicyScope scope(&policy);
  Tensor y = network(kConvolutions[2])(in);
  fill(in[0], 0);
  CHECK_THROWS_WITH_AS(backward(sum(std::move(y))), doctest::Contains("overwritten by 'fill'"),
                       AutogradError);
}

TEST_CASE("a request for rows that is refused leaves the bytes as they were") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope of(account);
  Tensors in = inputs_for(6, {8, 1, 1, kChannels});
  for (Tensor& input : in) input.set_requires_grad();
  autograd::FreeRecomputation policy;
  autograd::SavePolicyScope scope(&policy);
  const int64_t before = account->stats().live;
  bool failed = true;
  for (int64_t n = 1; failed; ++n) {
    REQUIRE(n < 100);
    failed = false;
    {
      Tensor y = network(kConvolutions[2])(in), dy = ones(y.shape());
      const int64_t saved = account->stats().live;
      account->fail_nth(n);
      try {
        backward(y, {.grad = dy});
      } catch (const memory::OutOfMemory&) {
        failed = true;
        CHECK(account->stats().live <= saved);
      }
      account->fail_nth(0);
      for (const Tensor& input : in) input.set_grad({});
    }
    CHECK(account->stats().live == before);
  }
}
