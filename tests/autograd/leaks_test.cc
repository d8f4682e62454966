// Reference cycles through the tape, which nobody can reach any more and nobody frees: they are
// found, and named by what made their buffers.
#include <doctest/doctest.h>

#include <functional>

#include "brim/autograd/backward.h"
#include "brim/autograd/op.h"
#include "brim/memory/no_growth.h"

using namespace brim;

namespace {

/// y = x, with x saved.
class Keep final : public autograd::Op {
 public:
  const char* name() const override { return "keep"; }
  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    return {clone(in[0])};
  }
  autograd::Saves saves(const autograd::Needs&) const override { return {.inputs = {0}}; }
  Tensors backward(autograd::BackwardCall& call) const override { return {clone(call.grad())}; }
};

Tensor keep(Tensor x, Where where = Where::current()) {
  autograd::ModuleScope module("head");
  return autograd::apply_one(std::make_shared<Keep>(), {std::move(x)}, where);
}

/// An account whose device sees no other test.
struct Own {
  std::shared_ptr<memory::Account> account = memory::capped_host_account("direct");
  memory::AccountScope scope{account};
};

/// The error of a turn that leaves something behind.
memory::GrowthError growth_of(Own& own, const std::function<void()>& turn) {
  try {
    memory::NoGrowth no_growth(own.account);
    turn();
    no_growth.check();
  } catch (const memory::GrowthError& error) {
    return error;
  }
  FAIL("nothing was left behind");
  throw 0;
}

}  // namespace

TEST_CASE("a hook that captures its own tensor is found, and named by op, module and line") {
  Own own;
  Tensor x = zeros({16}).set_requires_grad();
  auto held = std::make_shared<Tensor>();
  memory::GrowthError error = growth_of(own, [&] {
    Tensor y = keep(keep(x));
    register_hook(y, [held](const Tensor&) { return *held; });
    *held = y;  // y -> its node -> the hook -> y
  });
  // Both results: the inner one is saved by the outer node.
  CHECK(error.grown() == 2 * 64);
  REQUIRE(error.buffers().size() == 2);
  for (const memory::BufferInfo& buffer : error.buffers()) {
    CHECK(buffer.site.op == std::string("keep"));
    CHECK(buffer.site.path() == "head");
    CHECK(std::string(buffer.site.file).ends_with("leaks_test.cc"));
    CHECK(to_string(buffer.shape) == "float32 [16]");
  }
  CHECK(std::string(error.what()).find("float32 [16]  head: keep at ") != std::string::npos);
  *held = Tensor();
  CHECK(own.account->stats().live == 64);
}

TEST_CASE("a leaf whose hook captures it is found") {
  Own own;
  auto held = std::make_shared<Tensor>();
  memory::GrowthError error = growth_of(own, [&] {
    Tensor x = zeros({16}).set_requires_grad();
    register_hook(x, [held](const Tensor&) { return Tensor(); });
    *held = x;
  });
  CHECK(error.grown() == 64);
  *held = Tensor();
  CHECK(own.account->stats().live == 0);
}

TEST_CASE("results that are added up with their graph are found; their values are no growth") {
  Own own;
  Tensor x = zeros({16}).set_requires_grad();
  std::vector<Tensor> results;
  memory::GrowthError error = growth_of(own, [&] { results.push_back(keep(keep(x))); });
  CHECK(error.buffers().size() == 2);  // a result, and what the tape saved for it
  CHECK_NOTHROW([&] {
    memory::NoGrowth no_growth(own.account);
    Tensor y = keep(keep(x));
    register_hook(y, [](const Tensor&) { return Tensor(); });
    backward(y, {.grad = zeros({16})});
    x.set_grad(Tensor());
  }());
}
