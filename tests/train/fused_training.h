// Trainings of a few updates with the option `fused_update`, or without, for what the two have in
// common.
#pragma once

#include <cstring>
#include <map>

#include "brim/autograd/backward.h"
#include "brim/memory/arena_planner.h"
#include "brim/nn/creation.h"
#include "brim/ops/add.h"
#include "brim/ops/mul.h"
#include "brim/ops/relu.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/rehearsed_plan.h"
#include "brim/train/train_step.h"

namespace brim::testing {

/// Eight layers, of which two are one and the same: the weight of `tied` is used twice.
struct Deep final : nn::Module {
  Deep() {
    register_modules({{"first", first},
                      {"tied", tied},
                      {"second", second},
                      {"third", third},
                      {"fourth", fourth},
                      {"fifth", fifth},
                      {"last", last}});
    nn::initialize(*this, /*seed=*/4);
  }
  Tensor forward(Tensor x) override {
    x = relu(first(global_avg_pool(std::move(x))));
    x = relu(tied(std::move(x)));
    x = relu(second(std::move(x)));
    x = relu(tied(std::move(x)));
    x = relu(third(std::move(x)));
    x = relu(fourth(std::move(x)));
    x = relu(fifth(std::move(x)));
    return last(std::move(x));
  }
  nn::Linear first{3, 64}, tied{64, 64}, second{64, 64}, third{64, 64}, fourth{64, 64},
      fifth{64, 64}, last{64, 4};
};

/// Convolutions of 16 pixels and fewer, whose gradients come in factors; of one that is used twice
/// it does not. One has dy as a factor that goes around it, too.
struct FewPixels final : nn::Module {
  FewPixels() {
    register_modules({{"first", first},
                      {"tied", tied},
                      {"padded", padded},
                      {"wide", wide},
                      {"strided", strided},
                      {"last", last}});
    nn::initialize(*this, /*seed=*/6);
  }
  Tensor forward(Tensor x) override {
    x = relu(tied(relu(tied(relu(first(std::move(x)))))));
    x = add(x, padded(x));
    x = strided(relu(wide(relu(std::move(x)))));
    return last(global_avg_pool(std::move(x)));
  }
  nn::Conv2d first{3, 128, {.kernel = 3, .stride = 4, .padding = 1}},
      tied{128, 128, {.kernel = 3, .padding = 1}}, padded{128, 128, {.kernel = 3, .padding = 1}},
      wide{128, 512, {.kernel = 1}}, strided{512, 128, {.kernel = 1, .stride = 2}};
  nn::Linear last{128, 4};
};

struct Case {
  std::string model = "small";  // batch norm and dropout; or deep, or few pixels
  std::string optimizer = "sgd";
  bool fused = true;
  bool graph = false;
  bool scaled = false;  ///< gradients are multiplied by `Run::factors`
  std::string name() const { return model + ", " + optimizer + (fused ? ", fused" : ""); }
};

inline std::unique_ptr<nn::Module> make_model(const Case& c, Device device) {
  nn::CreationScope there({.device = device});
  if (c.model == "deep") return std::make_unique<Deep>();
  if (c.model == "few pixels") return std::make_unique<FewPixels>();
  return std::make_unique<SmallNet>();
}

inline std::unique_ptr<optim::Optimizer> make_optimizer(const Case& c, nn::Module& model) {
  if (c.optimizer == "adamw")
    return std::make_unique<optim::AdamW>(model.named_parameters(),
                                          optim::AdamWOptions{.groups = optim::no_decay(model)});
  return std::make_unique<optim::Sgd>(model.named_parameters(),
                                      optim::SgdOptions{.momentum = 0.9, .weight_decay = 1e-4});
}

inline Case plain(Case c) {
  c.fused = false;
  return c;
}

struct Run {
  explicit Run(const Case& c, Device device = Device::cpu())
      : model(make_model(c, device)),
        optimizer(make_optimizer(c, *model)),
        ema(*model, {.decay = 0.5}),
        step(*model, *optimizer,
             {.seed = 5,
              .clip = {.value = 0.05},
              .ema = &ema,
              .fused_update = c.fused,
              .graph = c.graph}),
        images(device.is_meta() ? empty({4, 8, 8, 3}, {.device = device})
                                : uniform({4, 8, 8, 3}, -1, 1, RandomKey{1})),
        labels(zeros({4}, {.dtype = Dtype::int64, .device = device})) {
    if (!c.scaled) return;
    for (const nn::NamedTensor& each : model->named_parameters()) {
      const Tensor factor = full({}, 1, {.device = device});
      factors.emplace(each.name, factor);
      register_hook(each.tensor, [factor](const Tensor& grad) { return mul(grad, factor); });
    }
  }

  Tensor loss() { return cross_entropy((*model)(images), labels); }
  double update() {
    return step.run(0.05, [&] { return loss(); }, {.samples = 4});
  }
  /// Parameters, buffers, optimizer state and averages.
  std::vector<nn::NamedTensor> state() const {
    std::vector<nn::NamedTensor> all = model->named_parameters();
    for (const auto& more : {model->named_buffers(), optimizer->named_state(), ema.named_state()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<float> values() const { return values_of(state()); }
  void put_back(const std::vector<float>& values) const {
    const float* from = values.data();
    for (const nn::NamedTensor& each : state()) {
      auto count = static_cast<size_t>(each.tensor.numel());
      std::memcpy(each.tensor.data(), from, count * sizeof(float));
      from += count;
    }
  }
  bool has_gradients() const {
    for (const nn::NamedTensor& each : model->named_parameters())
      if (each.tensor.grad().defined()) return true;
    return false;
  }

  std::unique_ptr<nn::Module> model;
  std::unique_ptr<optim::Optimizer> optimizer;
  optim::Ema ema;
  TrainStep step;
  Tensor images, labels;
  std::map<std::string, Tensor> factors;  ///< by parameter
};

inline RehearsedPlan plan_of(const Case& c) {
  return plan_on_meta([&](const auto& state_is_held) {
    Run run(c, Device::meta());
    state_is_held();
    for (int i = 0; i < 3; ++i) run.update();
  });
}

/// The host's bytes under the case's plan, for as long as it lives.
struct Planned {
  explicit Planned(const Case& c)
      : plan(plan_of(c)),
        account(std::make_shared<memory::Account>(Device::cpu(),
                                                  std::make_unique<memory::HostSource>(),
                                                  memory::arena_planner(plan.plan))),
        scope(account) {}
  RehearsedPlan plan;
  std::shared_ptr<memory::Account> account;
  memory::AccountScope scope;
};

}  // namespace brim::testing
