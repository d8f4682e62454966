// The block of recompute_without_a_plan.md, "For graphs that change": a model whose depth changes
// from step to step, in a step and by hand.
#include "brim/autograd/dynamic_eviction.h"
#include "brim/brim.h"

using namespace brim;

namespace {

struct Deep final : nn::Module {
  Deep() {
    register_modules({{"in", in}, {"middle", middle}, {"out", out}});
    nn::initialize(*this, /*seed=*/1);
  }
  Tensor forward(Tensor x) override {
    x = relu(in(std::move(x)));
    for (int i = 0; i < depth; ++i) x = tanh(middle(std::move(x)));
    return out(std::move(x));
  }
  int depth = 0;
  nn::Linear in{16, 64}, middle{64, 64}, out{64, 4};
};

}  // namespace

int main() {
  auto account = memory::capped_host_account("caching", 64 << 20);
  memory::AccountScope scope(account);
  const int64_t budget = 256 << 10;
  {
    Deep model;
    optim::Sgd optimizer(model.named_parameters());
    const Tensor x = uniform({32, 16}, -1, 1, {2}), labels = zeros({32}, {.dtype = Dtype::int64});
    // [step]
    TrainStep step(model, optimizer, {.seed = 1, .recompute = dynamic_eviction(budget)});
    // [/step]
    for (int depth : {10, 60, 30}) {
      model.depth = depth;
      step.run(0.1, [&] { return cross_entropy(model(x), labels); });
    }
    check(account->stats().peak_live <= budget, "the budget is a limit");

    // [by-hand]
    autograd::DynamicEviction eviction({.budget = budget});
    memory::ReclaimerScope reclaiming(*account, &eviction);
    Tensor loss;
    {
      autograd::SavePolicyScope saving(&eviction);
      loss = cross_entropy(model(x), labels);
    }
    backward(std::move(loss));
    // [/by-hand]
    check(eviction.counts().dropped > 0, "there was no room for thirty layers");
  }
}
