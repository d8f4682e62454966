#include "brim/shrink/weight_masks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/nn/layers.h"
#include "brim/ops/ops.h"
#include "brim/optim/adamw.h"
#include "brim/optim/ema.h"
#include "brim/optim/sgd.h"
#include "brim/shrink/channel_cut.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using shrink::MaskMethod;
using shrink::MaskOptions;
using shrink::WeightMasks;

namespace {

class Small final : public nn::Module {
 public:
  Small() {
    register_modules({{"a", a}, {"bn", bn}, {"fc", fc}});
    nn::initialize(*this, 1);
  }
  Tensor forward(Tensor x) override {
    x = bn(a(std::move(x)), {.activation = Activation::relu});
    return fc(global_avg_pool(std::move(x)));
  }
  nn::Conv2d a{3, 8, {.kernel = 3, .padding = 1}};
  nn::BatchNorm2d bn{8};
  nn::Linear fc{8, 4};
};

int64_t zeros_in(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector<double>();
  return std::ranges::count(values, 0.0);
}

Tensor loss_of(Small& model, uint64_t step) {
  Tensor x = uniform({4, 6, 6, 3}, -1, 1, {step});
  Tensor labels = from_vector<int64_t>({0, 1, 2, 3}, {4});
  return cross_entropy(model(std::move(x)), std::move(labels));
}

std::vector<bool> stays_of(const WeightMasks& masks, const std::string& name) {
  for (const nn::NamedTensor& mask : masks.masks())
    if (mask.name == name) {
      const bool* stays = mask.tensor.data<bool>();
      return std::vector<bool>(stays, stays + mask.tensor.numel());
    }
  return {};
}

}  // namespace

TEST_CASE("weight masks: l1 takes the smallest, of all tensors or of each") {
  Small model;
  std::vector<float> ordered(216);
  for (size_t i = 0; i < 216; ++i)
    ordered[i] = (i % 2 == 0 ? 1.0f : -1.0f) * static_cast<float>(i + 1);
  copy_into(model.a.weight, from_vector(ordered, model.a.weight.shape()));
  fill(model.fc.weight, 1000);
  {
    const WeightMasks masks(model, {.amount = 0.25});  // of 216 + 32 the 62 smallest: all of a
    CHECK(zeros_in(model.a.weight) == 62);
    CHECK(zeros_in(model.fc.weight) == 0);
    CHECK(masks.sparsity() == doctest::Approx(0.25));
    const std::vector<bool> stays = stays_of(masks, "a.weight");
    CHECK(std::ranges::count(stays, false) == 62);
    CHECK_FALSE(stays[61]);
    CHECK(stays[62]);
  }
  copy_into(model.a.weight, from_vector(ordered, model.a.weight.shape()));
  const WeightMasks masks(model, {.amount = 0.25, .global = false});
  CHECK(zeros_in(model.a.weight) == 54);
  CHECK(zeros_in(model.fc.weight) == 8);  // of equal ones the first
  CHECK_FALSE(stays_of(masks, "fc.weight")[7]);
  CHECK(stays_of(masks, "fc.weight")[8]);
}

TEST_CASE("weight masks: random ones follow the seed; excluded and unnamed tensors are left") {
  auto stays = [](uint64_t seed) {
    Small model;
    const WeightMasks masks(model, {.amount = 0.5, .method = MaskMethod::random, .seed = seed});
    return stays_of(masks, "a.weight");
  };
  CHECK(stays(1) == stays(1));
  CHECK(stays(1) != stays(2));
  Small model;
  const WeightMasks only(model, {.amount = 0.5, .only = {"fc"}});
  CHECK(only.masks().size() == 1);
  CHECK(zeros_in(model.a.weight) == 0);
  CHECK(zeros_in(model.fc.weight) == 16);
  const WeightMasks other(model, {.amount = 0.5, .exclude = {"fc.weight"}});
  CHECK(zeros_in(model.a.weight) == 108);
}

TEST_CASE("weight masks: n:m keeps the largest n of each m inputs in a row") {
  Small model;
  const WeightMasks masks(model, {.keep = 2, .of = 4});
  // fc has 8 inputs: two blocks of each row; a has 3: one block, which is shorter.
  const std::vector<bool> fc = stays_of(masks, "fc.weight"), a = stays_of(masks, "a.weight");
  for (size_t block = 0; block < fc.size(); block += 4)
    CHECK(std::count(fc.begin() + static_cast<long>(block),
                     fc.begin() + static_cast<long>(block) + 4, true) == 2);
  for (size_t block = 0; block < a.size(); block += 3)
    CHECK(std::count(a.begin() + static_cast<long>(block), a.begin() + static_cast<long>(block) + 3,
                     true) == 2);
  copy_into(model.fc.weight, from_vector<float>({1, -4, 3, 2, 8, 7, 6, 5, 1, -4, 3, 2, 8, 7, 6, 5,
                                                 1, -4, 3, 2, 8, 7, 6, 5, 1, -4, 3, 2, 8, 7, 6, 5},
                                                {4, 8}));
  const WeightMasks known(model, {.keep = 2, .of = 4, .only = {"fc"}});
  const std::vector<float> row{0, -4, 3, 0, 8, 7, 0, 0};
  const std::vector<float> values = model.fc.weight.to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == row[i % 8]);
}

TEST_CASE("weight masks: masked weights stay zero over 1,000 updates, and the others train") {
  const int steps = 1000;
  for (int kind = 0; kind < 3; ++kind) {
    CAPTURE(kind);
    Small model;
    std::unique_ptr<optim::Optimizer> optimizer;
    if (kind == 0)
      optimizer = std::make_unique<optim::Sgd>(
          model.named_parameters(),
          optim::SgdOptions{.momentum = 0.9, .nesterov = true, .weight_decay = 1e-2});
    else
      optimizer = std::make_unique<optim::AdamW>(
          model.named_parameters(),
          optim::AdamWOptions{.weight_decay = 0.1,
                              .state = kind == 1 ? Dtype::float32 : Dtype::bfloat16});
    optim::Ema ema(model, {.decay = 0.99});
    auto update = [&](uint64_t step) {
      backward(loss_of(model, step));
      optimizer->step({.rate = 1e-3, .clip = {.norm = 1}});
      optimizer->zero_grad();
      ema.update();
    };
    for (uint64_t step = 0; step < 5; ++step) update(step);  // momentum of all weights
    WeightMasks masks(model, {.amount = 0.6});
    masks.apply_to(optimizer->named_state());
    masks.apply_to(ema.named_state());
    const std::vector<float> before = model.a.weight.to_vector<float>();
    for (uint64_t step = 0; step < steps; ++step) update(5 + step);
    for (const nn::NamedTensor& mask : masks.masks()) {
      const std::vector<bool> stays = stays_of(masks, mask.name);
      auto are_zero = [&](const Tensor& tensor) {
        const std::vector<float> values = tensor.to_vector<float>();
        for (size_t i = 0; i < values.size(); ++i)
          if (!stays[i] && values[i] != 0) return false;
        return true;
      };
      CHECK(are_zero(model.tensor(mask.name)));
      for (const nn::NamedTensor& of : optimizer->named_state())
        if (of.name.ends_with("." + mask.name)) CHECK(are_zero(of.tensor));
      for (const nn::NamedTensor& of : ema.named_state())
        if (of.name.ends_with("." + mask.name)) CHECK(are_zero(of.tensor));
    }
    CHECK(masks.sparsity() == doctest::Approx(0.6).epsilon(0.01));
    CHECK(model.a.weight.to_vector<float>() != before);
  }
}

TEST_CASE("weight masks: gradients are masked before they are seen, also one that is shared") {
  Small model;
  WeightMasks masks(model, {.amount = 0.5, .only = {"fc"}});
  backward(loss_of(model, 1));
  CHECK(zeros_in(model.fc.weight.grad()) == 16);
  // The gradient of a sum goes to both terms as one tensor: the other's is not masked.
  Tensor other = zeros({4, 8});
  other.set_requires_grad();
  model.zero_grad();
  backward(sum(mul(add(model.fc.weight, other), full({4, 8}, 2))));
  CHECK(zeros_in(model.fc.weight.grad()) == 16);
  CHECK(zeros_in(other.grad()) == 0);
}

TEST_CASE("weight masks: more can go; what is gone stays gone") {
  Small model;
  WeightMasks masks(model, {.amount = 0.3, .method = MaskMethod::random});
  const std::vector<bool> first = stays_of(masks, "a.weight");
  masks.prune({.amount = 0.7, .method = MaskMethod::random, .seed = 5});
  const std::vector<bool> then = stays_of(masks, "a.weight");
  CHECK(masks.sparsity() == doctest::Approx(0.7).epsilon(0.01));
  for (size_t i = 0; i < first.size(); ++i) CHECK((first[i] || !then[i]));
  masks.prune({.amount = 0.1});
  CHECK(stays_of(masks, "a.weight") == then);
}

TEST_CASE(
    "weight masks: made permanent, the zeros are weights like others, and masks take nothing") {
  Small model;
  const int64_t before = memory::account(Device::cpu())->stats().live;
  WeightMasks masks(model, {.amount = 0.5});
  CHECK(memory::account(Device::cpu())->stats().live >= before + 216 + 32);
  masks.make_permanent();
  CHECK(memory::account(Device::cpu())->stats().live == before);
  CHECK(zeros_in(model.fc.weight) + zeros_in(model.a.weight) == 124);
  backward(loss_of(model, 1));
  CHECK(zeros_in(model.fc.weight.grad()) < 4);
  CHECK_THROWS_WITH_AS(masks.prune({}), "weight masks: the masks are permanent by now", ValueError);
}

TEST_CASE("weight masks: options out of range and names that are not there are refused") {
  Small model;
  CHECK_THROWS_WITH_AS(WeightMasks(model, {.amount = 1.5}),
                       "weight masks: expected an amount in [0, 1], got 1.5", ValueError);
  CHECK_THROWS_WITH_AS(WeightMasks(model, {.keep = 5, .of = 4}),
                       "weight masks: expected to keep up to m of m weights, got 5 of 4",
                       ValueError);
  CHECK_THROWS_WITH_AS(WeightMasks(model, {.only = {"fd"}}),
                       "weight masks: there is no module or parameter 'fd'; did you mean 'fc'?",
                       ValueError);
  CHECK_THROWS_AS(WeightMasks(model, {.only = {"bn"}}), ValueError);
  CHECK(zeros_in(model.a.weight) == 0);
}

TEST_CASE("weight masks: a weight that lost channels has none that fits") {
  Small model;
  WeightMasks masks(model);
  Layout fewer = model.a.weight.layout();
  fewer.shape[0] -= 1;
  shrink::exchange(model.a.weight, clone(Tensor(model.a.weight.storage(), fewer)));
  const std::string text = testing::error_text<ShapeError>([&] { masks.prune({.amount = 0.7}); });
  CHECK(testing::contains(text, "make masks permanent before channels are removed"));
}
