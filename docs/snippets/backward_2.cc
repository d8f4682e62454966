// Forward is a pure function: replay, effects, addresses of random numbers.
#include <algorithm>

#include "brim/autograd/backward.h"
#include "brim/autograd/effects.h"
#include "brim/autograd/random_context.h"
#include "brim/nn/init.h"
#include "brim/nn/layers.h"
#include "brim/ops/ops.h"

using namespace brim;

namespace {

// [replay]
struct Replay final : autograd::OpObserver {
  void ran(const autograd::OpEvent& event) override {
    if (event.phase != autograd::Phase::forward) return;
    Tensors again = event.op.forward(event.inputs, event.context);
    for (size_t i = 0; i < again.size(); ++i)
      if (again[i].defined())
        check(again[i].to_vector<double>() == event.outputs[i].to_vector<double>(), "same bits");
    ++replayed;
  }
  int replayed = 0;
};
// [/replay]

void replay() {
  nn::Sequential net;
  net.add<nn::Linear>(8, 16);
  net.add<nn::BatchNorm2d>(16);
  net.add<nn::Dropout>(0.5);
  nn::initialize(net, 1);
  Tensor before, after, x = uniform({4, 8}, -1, 1, RandomKey{1});
  {
    Replay observer;
    net(x);
    check(observer.replayed == 3, "linear, batch norm and dropout each ran twice");
  }
  // The running mean started at 0 and moved once: to a tenth of the batch's mean.
  nn::Sequential once;
  once.add<nn::Linear>(8, 16);
  once.add<nn::BatchNorm2d>(16);
  nn::initialize(once, 1);
  once(x);
  check(once.tensor("1.running_mean").to_vector<float>() ==
            net.tensor("1.running_mean").to_vector<float>(),
        "moved once, not twice");
}

void effects() {
  nn::BatchNorm2d bn(2);
  nn::initialize(bn, 1);
  Tensor x = from_vector<float>({1, 2, 3, 4}, {2, 2});
  Tensor shadow = clone(bn.running_mean), shadow_var = clone(bn.running_var);
  std::vector<std::pair<Tensor, Tensor>> shadows{{bn.running_mean, shadow},
                                                 {bn.running_var, shadow_var}};
  {
    autograd::EffectScope scope(shadows);
    bn(x);
  }
  check(bn.running_mean.to_vector<float>() == std::vector<float>{0, 0}, "not yet");
  check(shadow.to_vector<float>() == std::vector<float>{0.2f, 0.3f}, "a tenth of the means 2, 3");
  copy_into(bn.running_mean, shadow);  // commit; or forget the shadow, and nothing happened
}

void addresses() {
  // [dropout]
  Tensor x = ones({8, 100});
  auto mask = [&](Tensor part, uint64_t first_sample) {
    autograd::RandomScope scope(/*seed=*/1, /*update=*/7, first_sample);
    autograd::ModuleScope module("classifier.0");
    return dropout(part, {.p = 0.5}).to_vector<float>();
  };
  std::vector<float> whole = mask(x, 0);
  std::vector<float> first = mask(ones({4, 100}), 0), second = mask(ones({4, 100}), 4);
  check(std::equal(first.begin(), first.end(), whole.begin()), "samples 0 to 3");
  check(std::equal(second.begin(), second.end(), whole.begin() + 400), "samples 4 to 7");
  // [/dropout]
}

}  // namespace

int main() {
  replay();
  effects();
  addresses();
}
