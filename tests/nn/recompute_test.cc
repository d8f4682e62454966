// Results that are dropped and made again: the same bits, fewer bytes, side effects once, whatever
// is checkpointed and however deep.
#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/autograd/checkpoint.h"
#include "brim/autograd/effects.h"
#include "brim/autograd/free_recomputation.h"
#include "brim/autograd/in_place.h"
#include "brim/memory/out_of_memory.h"
#include "brim/nn/checkpoint_sequential.h"
#include "brim/nn/layers.h"
#include "brim/ops/ops.h"
#include "brim/tests/nn/block_net.h"
#include "brim/tests/support/compare.h"
#include "brim/tests/support/replays.h"

using namespace brim;
using namespace brim::testing;
using autograd::checkpoint;

namespace {

/// What a step must not do twice.
struct Net final : BlockNet {
  Net() {
    register_module("fc", fc);
    nn::initialize(*this, /*seed=*/3);
  }
  Tensor forward(Tensor x) override { return fc(global_avg_pool(block(stem(std::move(x))))); }

  nn::Linear fc{8, 4};
};

struct Result {
  std::vector<std::vector<double>> numbers;  // loss, gradients, buffers
  int64_t saved_bytes = 0;                   // live after forward, but for the model
  int64_t recomputed = 0;
};

using Forward = std::function<Tensor(Net&, Tensor)>;

Result run(const Forward& forward, Dtype dtype = Dtype::float32) {
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(), memory::planner_named("direct"));
  memory::AccountScope of(account);
  Result result;
  {
    Net net;
    net.to(dtype);
    const int64_t before = account->stats().live;
    autograd::RandomScope random(/*seed=*/5, /*update=*/0, /*first_sample=*/0);
    Replays replays;
    Tensor x = convert_to(images(), {.dtype = dtype});
    Tensor loss = mean(forward(net, std::move(x)));
    result.saved_bytes = account->stats().live - before;
    result.numbers.push_back(loss.to_vector<double>());
    CHECK(replays.count() == 0);
    backward(std::move(loss));
    result.recomputed = replays.count();
    for (const auto& [name, parameter] : net.named_parameters()) {
      REQUIRE(parameter.grad().defined());
      result.numbers.push_back(parameter.grad().to_vector<double>());
    }
    for (const auto& [name, buffer] : net.named_buffers())
      result.numbers.push_back(buffer.to_vector<double>());
  }
  CHECK(account->stats().live == 0);
  return result;
}

Tensor head(Net& net, Tensor y) { return net.fc(global_avg_pool(std::move(y))); }

Tensor in_one_piece(Net& net, Tensor x) {
  return checkpoint([&](Tensor t) { return net(std::move(t)); }, std::move(x));
}
Tensor in_two_pieces(Net& net, Tensor x) {
  x = checkpoint([&](Tensor t) { return net.stem(std::move(t)); }, std::move(x));
  x = checkpoint([&](Tensor t) { return net.block(std::move(t)); }, std::move(x));
  return head(net, std::move(x));
}
Tensor nested(Net& net, Tensor x) {
  return checkpoint([&](Tensor t) { return in_two_pieces(net, std::move(t)); }, std::move(x));
}
Tensor freely(Net& net, Tensor x) {
  autograd::FreeRecomputation policy;
  autograd::SavePolicyScope scope(&policy);
  return net(std::move(x));
}
Tensor freely_with_a_checkpoint(Net& net, Tensor x) {
  autograd::FreeRecomputation policy;
  autograd::SavePolicyScope scope(&policy);
  x = net.stem(std::move(x));
  x = checkpoint([&](Tensor t) { return net.block(std::move(t)); }, std::move(x));
  return head(net, std::move(x));
}

}  // namespace

TEST_CASE("every way to recompute gives the same bits with fewer bytes") {
  for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
    const Result kept = run([](Net& net, Tensor x) { return net(std::move(x)); }, dtype);
    CHECK(kept.recomputed == 0);
    for (const Forward& forward : {Forward(in_one_piece), Forward(in_two_pieces), Forward(nested),
                                   Forward(freely), Forward(freely_with_a_checkpoint)})
      for (bool in_place : {false, true}) {
        autograd::InPlaceScope scope(in_place);
        Result result = run(forward, dtype);
        CHECK(result.numbers == kept.numbers);
        CHECK(result.saved_bytes < kept.saved_bytes);
        CHECK(result.recomputed > 0);
      }
  }
}

TEST_CASE("each call of a checkpoint runs again once, and of a nested one at most twice") {
  // conv1 bn1 drop | conv2 bn2 conv3 bn3 | avgpool fc mean: of those that are not last in theirs.
  CHECK(run(in_one_piece).recomputed == 8);
  CHECK(run(in_two_pieces).recomputed <= 7);
  CHECK(run(nested).recomputed <= 2 * 9);
}

TEST_CASE("a checkpoint saves its inputs, its results, and what statistics take") {
  const int64_t input = 4 * 16 * 16 * 3 * 4, statistics = 3 * 2 * 8 * 8;
  const int64_t result = 4 * 4 * 4, loss = 4;
  // Each rounded up to the alignment: three pairs of statistics, and small change.
  CHECK(run(in_one_piece).saved_bytes <= input + 6 * 64 + statistics + result + loss + 2 * 64);
}

TEST_CASE("an input that was overwritten since is refused, and named with what wrote it") {
  Tensor w = uniform({8, 8}, -1, 1, {1}).set_requires_grad();
  Tensor x = uniform({8, 8}, -1, 1, {2});
  Tensor y = checkpoint([&](const Tensor& t) { return tanh(tanh(mul(t, w))); }, x);
  fill(x, 0);
  CHECK_THROWS_WITH_AS(backward(sum(std::move(y))), doctest::Contains("overwritten by 'fill'"),
                       AutogradError);
}

TEST_CASE("a graph that is retained is gone through again") {
  Tensor w = uniform({8, 8}, -1, 1, {1}).set_requires_grad();
  Tensor y = sum(checkpoint([](const Tensor& t) { return tanh(tanh(exp(t))); }, w));
  backward(y, {.retain_graph = true});
  const std::vector<float> once = w.grad().to_vector<float>();
  w.set_grad({});
  backward(y);
  CHECK(w.grad().to_vector<float>() == once);
  CHECK_THROWS_AS(backward(y), AutogradError);
}

TEST_CASE("an op that gives another shape when it runs again is named") {
  struct Growing final : autograd::Op {
    const char* name() const override { return "growing"; }
    Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
      return {zeros({in[0].size(0) + calls++})};
    }
    Tensors backward(autograd::BackwardCall& call) const override {
      return {zeros(call.input_info(0).shape)};
    }
    mutable int calls = 0;
  };
  Tensor w = zeros({4}).set_requires_grad();
  Tensor y = checkpoint(
      [](const Tensor& t) {
        return exp(exp(autograd::apply_one(std::make_shared<Growing>(), {Tensor(t)},
                                           std::source_location::current())));
      },
      w);
  CHECK_THROWS_WITH_AS(backward(sum(std::move(y))),
                       doctest::Contains("growing: run again for backward it gives [5]"),
                       AutogradError);
}

TEST_CASE("refused requests in backward leave the bytes as they were, and what is made is freed") {
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(), memory::planner_named("direct"));
  memory::AccountScope of(account);
  Net net;
  for (const Forward& forward : {Forward(in_one_piece), Forward(nested), Forward(freely)}) {
    for (int64_t n = 0;; ++n) {
      REQUIRE(n < 500);
      const int64_t before = account->stats().live;
      bool failed = false;
      {
        autograd::RandomScope random(5, 0, 0);
        Tensor loss = mean(forward(net, images()));
        const int64_t saved = account->stats().live;
        account->fail_nth(n + 1);
        try {
          backward(loss);
        } catch (const memory::OutOfMemory&) {
          failed = true;
          CHECK(account->stats().live <= saved);  // nothing that was made again stays
        }
        account->fail_nth(0);
        for (const auto& [name, parameter] : net.named_parameters()) parameter.set_grad({});
      }
      CHECK(account->stats().live == before);
      if (!failed) break;
    }
  }
}

TEST_CASE("free recomputation keeps one tensor for each convolution and batch norm") {
  // Of the convolutions the outputs, of the block its input, which everything else is made from.
  const Result free = run(freely), kept = run([](Net&net, Tensor x) { return net(std::move(x)); });
  const int64_t activation = 4 * 16 * 16 * 8 * 4;
  CHECK(kept.saved_bytes - free.saved_bytes >= 2 * activation);
  CHECK(free.recomputed <= 4);
}

TEST_CASE("a chain of modules in segments gives the same bits, its names and fewer bytes") {
  auto run_in = [](int64_t segments) {
    auto account = std::make_shared<memory::Account>(
        Device::cpu(), std::make_unique<memory::HostSource>(), memory::planner_named("direct"));
    memory::AccountScope of(account);
    nn::Sequential chain;
    for (int i = 0; i < 6; ++i) {
      chain.add<nn::Conv2d>(3, 3, nn::ConvOptions{.kernel = 3, .padding = 1});
      chain.add<nn::ReLU>();
    }
    nn::initialize(chain, 1);
    Tensor x = images();
    Tensor y = segments == 0 ? chain(x) : nn::checkpoint_sequential(chain, segments, x);
    const int64_t saved = account->stats().live;
    backward(sum(std::move(y)));
    std::vector<std::vector<float>> grads;
    for (const auto& [name, parameter] : chain.named_parameters())
      grads.push_back(parameter.grad().to_vector<float>());
    return std::pair(grads, saved);
  };
  const auto [expected, all] = run_in(0);
  for (int64_t segments : {1, 2, 3, 5}) {
    CAPTURE(segments);
    const auto [grads, saved] = run_in(segments);
    CHECK(grads == expected);
    CHECK((segments == 1 ? saved == all : saved < all));
  }
  nn::Sequential empty;
  CHECK_THROWS_WITH_AS(nn::checkpoint_sequential(empty, 1, images()),
                       doctest::Contains("expected 1 to 0 segments"), ValueError);
}

TEST_CASE("what begins by writing over its input keeps the result instead of it") {
  auto gradient = [](bool in_place, bool checkpointed) {
    autograd::InPlaceScope scope(in_place);
    Tensor w = uniform({16, 16}, -1, 1, {1}).set_requires_grad();
    Tensor x = uniform({16, 16}, -1, 1, {2});
    auto function = [&](Tensor t) { return tanh(matmul(relu(std::move(t)), w)); };
    Tensor h = matmul(x, w);
    for (int i = 0; i < 3; ++i)
      h = checkpointed ? checkpoint(function, std::move(h)) : function(std::move(h));
    backward(sum(exp(std::move(h))));
    return w.grad().to_vector<float>();
  };
  const std::vector<float> expected = gradient(false, false);
  for (bool in_place : {false, true}) {
    CHECK(gradient(in_place, true) == expected);
    CHECK(gradient(in_place, false) == expected);
  }
}

TEST_CASE("a result that was written to after its op is not made again without that") {
  auto gradient = [](bool in_place) {
    autograd::InPlaceScope scope(in_place);
    Tensor w = uniform({16, 16}, -1, 1, {1}).set_requires_grad();
    Tensor x = uniform({16, 16}, -1, 1, {2});
    Tensor y = checkpoint(
        [&](const Tensor& t) {
          Tensor h = matmul(t, w);
          fill(h, 0.5);
          return matmul(relu(std::move(h)), w);
        },
        x);
    backward(sum(exp(std::move(y))));
    return w.grad().to_vector<float>();
  };
  CHECK(gradient(true) == gradient(false));
}

TEST_CASE("segments that begin with an elementwise op are cut there in place too") {
  auto run_with = [](int64_t segments, bool in_place) {
    autograd::InPlaceScope scope(in_place);
    nn::Sequential chain;
    for (int i = 0; i < 8; ++i) {
      chain.add<nn::ReLU>();
      chain.add<nn::Conv2d>(3, 3, nn::ConvOptions{.kernel = 3, .padding = 1});
    }
    nn::initialize(chain, 1);
    Tensor x = images();
    Replays replays;
    backward(sum(segments == 0 ? chain(x) : nn::checkpoint_sequential(chain, segments, x)));
    CHECK(replays.count() <= 16);  // each call once at most
    std::vector<std::vector<float>> grads;
    for (const auto& [name, parameter] : chain.named_parameters())
      grads.push_back(parameter.grad().to_vector<float>());
    return grads;
  };
  const auto expected = run_with(0, false);
  for (int64_t segments : {2, 4, 8})
    for (bool in_place : {false, true}) CHECK(run_with(segments, in_place) == expected);
}
