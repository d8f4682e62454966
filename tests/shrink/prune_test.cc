#include "brim/shrink/prune.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/ops.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using shrink::Criterion;
using shrink::Pruner;
using shrink::PruningPlan;

namespace {

const Shape kInput{1, 8, 8, 3};

/// Two layers whose widths can change, and one whose cannot.
class Small final : public nn::Module {
 public:
  Small() {
    register_modules({{"a", a}, {"bn", bn}, {"b", b}, {"head", head}});
    nn::initialize(*this, 1);
  }
  Tensor forward(Tensor x) override { return head(global_avg_pool(b(relu(bn(a(std::move(x))))))); }
  nn::Conv2d a{3, 4, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn{4};
  nn::Conv2d b{4, 6, {}};
  nn::Linear head{6, 2};
};

void set(const Tensor& tensor, int axis, int64_t index, double value) {
  Layout layout = tensor.layout();
  layout.offset += index * layout.strides[axis];
  layout.shape[axis] = 1;
  fill(Tensor(tensor.storage(), layout), value);
}

// The scores of the group whose channels conv "a" makes.
std::vector<double> scores_of_a(Small& model, Criterion criterion) {
  const shrink::ChannelGroups groups = shrink::find_channel_groups(model, kInput);
  REQUIRE(groups.groups.size() == 2);
  REQUIRE(groups.groups[0].name == "a");
  return shrink::unit_scores(model, groups, criterion)[0];
}

}  // namespace

TEST_CASE("importance: the magnitudes of what makes a channel and of what reads it") {
  Small model;
  fill(model.a.weight, 1);
  fill(model.b.weight, 0);
  for (int64_t i = 0; i < 4; ++i) set(model.b.weight, 3, i, -static_cast<double>(i));
  // 27 ones and six of -i: sums 27 + 6 i, with a mean of 36; squares 27 + 6 i^2.
  for (int i = 0; i < 4; ++i) {
    const auto at = static_cast<size_t>(i);
    CHECK(scores_of_a(model, Criterion::l1)[at] == doctest::Approx((27.0 + 6 * i) / 36));
    const double sum = std::sqrt(27.0) + std::sqrt(33.0) + std::sqrt(51.0) + std::sqrt(81.0);
    CHECK(scores_of_a(model, Criterion::l2)[at] ==
          doctest::Approx(std::sqrt(27.0 + 6 * i * i) * 4 / sum));
  }
}

TEST_CASE("importance: the scales of a batch norm; where there is none, as l2") {
  Small model;
  copy_into(model.bn.weight, from_vector<float>({1, -2, 3, 0}, {4}));
  const std::vector<double> scores = scores_of_a(model, Criterion::batch_norm);
  CHECK(scores[0] == doctest::Approx(4.0 / 6));
  CHECK(scores[1] == doctest::Approx(8.0 / 6));
  CHECK(scores[3] == 0);
  const shrink::ChannelGroups groups = shrink::find_channel_groups(model, kInput);
  CHECK(shrink::unit_scores(model, groups, Criterion::batch_norm)[1] ==
        shrink::unit_scores(model, groups, Criterion::l2)[1]);
}

TEST_CASE(
    "importance: taylor squares weight times gradient, filter by filter, and wants gradients") {
  Small model;
  CHECK_THROWS_WITH_AS(scores_of_a(model, Criterion::taylor),
                       "prune: the criterion taylor wants gradients, and a.weight has none: run "
                       "backward on some batches first",
                       ValueError);
  for (const nn::NamedTensor& p : model.named_parameters())
    p.tensor.set_grad(zeros(p.tensor.shape()));
  fill(model.a.weight, 0.5);
  fill(model.bn.weight, 2);
  for (int64_t i = 0; i < 4; ++i) set(model.a.weight.grad(), 0, i, static_cast<double>(i));
  set(model.bn.weight.grad(), 0, 0, 3);
  // Sums of 0.5 i over 27 weights; and 2 * 3 of the first scale: squares 36, 13.5^2 i^2.
  const double sum = 36 + 13.5 * 13.5 * (1 + 4 + 9);
  const std::vector<double> scores = scores_of_a(model, Criterion::taylor);
  CHECK(scores[0] == doctest::Approx(4 * 36 / sum));
  CHECK(scores[2] == doctest::Approx(4 * 13.5 * 13.5 * 4 / sum));
}

TEST_CASE("importance: geometric median, the sum of distances to the other filters") {
  Small model;
  fill(model.a.weight, 0);
  const double at[] = {0, 1, 2, 10};  // on a line: distances in units of sqrt(27)
  for (int64_t i = 0; i < 4; ++i) set(model.a.weight, 0, i, at[i]);
  const std::vector<double> scores = scores_of_a(model, Criterion::geometric_median);
  const double sums[] = {13, 11, 11, 27};
  for (size_t i = 0; i < 4; ++i) CHECK(scores[i] == doctest::Approx(sums[i] * 4 / 62));
}

TEST_CASE("importance: random scores are a function of the seed") {
  Small model;
  const shrink::ChannelGroups groups = shrink::find_channel_groups(model, kInput);
  auto draw = [&](uint64_t seed) {
    return shrink::unit_scores(model, groups, Criterion::random, seed);
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}

TEST_CASE("prune: the least important channels go, with all that goes with them") {
  Small model;
  for (int64_t i = 0; i < 4; ++i) set(model.a.weight, 0, i, i == 2 ? 0.001 : 1);
  set(model.b.weight, 3, 2, 0);
  const std::vector<float> kept_bias = model.b.bias.to_vector<float>();
  copy_into(model.bn.weight, from_vector<float>({1, 2, 3, 4}, {4}));
  model.bn.weight.set_grad(from_vector<float>({5, 6, 7, 8}, {4}));
  const Pruner pruner(model, kInput, {.multiple = 1});
  const PruningPlan plan = pruner.ratio(0.1, shrink::flops_of(kInput));
  CHECK(plan.removed == doctest::Approx(0.1));  // one of 4 + 6
  CHECK(model.a.weight.size(0) == 4);           // nothing has changed yet
  shrink::remove_channels(model, plan.cut);
  CHECK(model.a.weight.shape() == Shape{3, 3, 3, 3});
  CHECK(model.b.weight.shape() == Shape{6, 1, 1, 3});
  CHECK(model.bn.weight.to_vector<float>() == std::vector<float>{1, 2, 4});
  CHECK(model.bn.weight.grad().to_vector<float>() == std::vector<float>{5, 6, 8});
  CHECK(model.bn.running_var.shape() == Shape{3});
  CHECK(model.b.bias.to_vector<float>() == kept_bias);
  CHECK(model.head.weight.shape() == Shape{2, 6});
  CHECK(model.a.weight.requires_grad());
  CHECK_FALSE(model.bn.running_mean.requires_grad());
  CHECK(model(zeros({2, 8, 8, 3})).shape() == Shape{2, 2});
}

TEST_CASE("prune: a target is met with the least that meets it, or refused with what is possible") {
  auto model = nn::make_model("resnet20", {.classes = 10});
  const Shape input{1, 32, 32, 3};
  const shrink::Cost flops = shrink::flops_of(input);
  for (bool global : {true, false}) {
    const shrink::PruneOptions options{.global = global, .multiple = 1};
    const PruningPlan plan = Pruner(*model, input, options).to(0.5, flops);
    CHECK(plan.after <= 0.5 * plan.before);
    CHECK(plan.after > 0.45 * plan.before);
  }
  const Pruner pruner(*model, input);
  const PruningPlan few = pruner.to(0.4, shrink::parameters_of());
  CHECK(few.before == static_cast<double>(model->parameter_count()));
  CHECK(few.after <= 0.4 * few.before);
  try {
    pruner.to(0.001, flops);
    FAIL("met");
  } catch (const ValueError& error) {
    const std::string text = error.what();
    CAPTURE(text);
    const double least = std::stod(text.substr(text.rfind(", ") + 2));
    CHECK(least > 0.01);
    const PruningPlan most = pruner.to(least + 0.001, flops);
    CHECK(most.after <= (least + 0.001) * most.before);
  }
}

TEST_CASE(
    "prune: where layers can only lose many channels at once, what there is room for comes back") {
  auto model = nn::make_model("resnet20", {.classes = 10});
  const Shape input{1, 32, 32, 3};
  for (double fraction : {0.3, 0.5, 0.7}) {
    CAPTURE(fraction);
    const Pruner pruner(*model, input, {.multiple = 8});
    const PruningPlan plan = pruner.to(fraction, shrink::flops_of(input));
    CHECK(plan.after <= fraction * plan.before);
    CHECK(plan.after > (fraction - 0.03) * plan.before);
    for (size_t g = 0; g < plan.kept.size(); ++g)
      CHECK(std::ranges::count(plan.kept[g], true) * pruner.groups().groups[g].channels_per_unit() %
                8 ==
            0);
  }
}

TEST_CASE("prune: by importance of one's own") {
  Small model;
  const auto by_number = [](nn::Module&, const shrink::ChannelGroups& groups) {
    shrink::UnitScores scores;
    for (const shrink::ChannelGroup& group : groups.groups)
      for (double& score : scores.emplace_back(static_cast<size_t>(group.units)))
        score = static_cast<double>(&score - scores.back().data());
    return scores;
  };
  const shrink::Cost flops = shrink::flops_of(kInput);
  const PruningPlan plan =
      Pruner(model, kInput, {.scores = by_number, .multiple = 1}).ratio(0.4, flops);
  CHECK(plan.kept ==
        shrink::KeptUnits{{false, false, true, true}, {false, false, true, true, true, true}});
  const auto refused = [&](const shrink::UnitScores& scores) {
    const auto give = [&](nn::Module&, const shrink::ChannelGroups&) { return scores; };
    CHECK_THROWS_WITH_AS(Pruner(model, kInput, {.scores = give}),
                         "prune: expected a finite score for each unit of each group", ValueError);
  };
  refused({});
  refused({{1, 2, 3}, {1, 2, 3, 4, 5, 6}});
  refused({{1, 2, 3, std::nan("")}, {1, 2, 3, 4, 5, 6}});
}

TEST_CASE("importance: scores of several batches add up") {
  shrink::UnitScores sums;
  shrink::add_scores(sums, {{1, 2}, {3}});
  shrink::add_scores(sums, {{4, 5}, {6}});
  CHECK(sums == shrink::UnitScores{{5, 7}, {9}});
}

TEST_CASE("prune: groups keep a multiple of channels, a least share, and what is excluded") {
  auto model = nn::make_model("mobilenet_v2", {.classes = 10});
  const Shape input{1, 64, 64, 3};
  const std::string excluded = "features.3.conv.1.0.weight";
  const Shape shape = model->tensor(excluded).shape();
  const Pruner pruner(*model, input, {.multiple = 8, .least = 0.25, .exclude = {excluded}});
  const PruningPlan plan = pruner.ratio(1, shrink::flops_of(input));
  for (size_t g = 0; g < plan.kept.size(); ++g) {
    const shrink::ChannelGroup& group = pruner.groups().groups[g];
    const auto stays = std::ranges::count(plan.kept[g], true) * group.channels_per_unit();
    CAPTURE(group.name);
    const auto all = group.units * group.channels_per_unit();
    CHECK((stays % 8 == 0 || stays == all));
    CHECK(4 * stays >= all);
    CHECK((stays < all || all == 8));
  }
  CHECK(plan.cut.shape_after(excluded, shape) == shape);
}

TEST_CASE("prune: numbers out of range are refused") {
  Small model;
  const shrink::Cost flops = shrink::flops_of(kInput);
  CHECK_THROWS_WITH_AS(Pruner(model, kInput).ratio(1.5, flops),
                       "prune: expected a ratio in [0, 1], got 1.5", ValueError);
  CHECK_THROWS_WITH_AS(Pruner(model, kInput).to(0, flops),
                       "prune: expected a fraction in (0, 1], got 0", ValueError);
  CHECK_THROWS_AS(Pruner(model, kInput, {.multiple = 0}), ValueError);
  CHECK_THROWS_AS(Pruner(model, kInput, {.least = -1}), ValueError);
  CHECK_THROWS_WITH_AS(shrink::criterion_of("l3"),
                       "prune: there is no criterion 'l3'; did you mean 'l1'?", ValueError);
}

namespace {

/// Says in its code that there are six channels.
class SaysSix final : public nn::Module {
 public:
  SaysSix() {
    register_modules({{"a", a}, {"fc", fc}});
    nn::initialize(*this, 1);
  }
  Tensor forward(Tensor x) override {
    return fc(reshape(global_avg_pool(a(std::move(x))), {-1, 6}));
  }
  nn::Conv2d a{3, 6};
  nn::Linear fc{6, 2};
};

}  // namespace

TEST_CASE("prune: a model whose code says how many channels there are is refused as it was") {
  SaysSix model;
  const Shape input{3, 4, 4, 3};
  const Pruner pruner(model, input, {.multiple = 1});
  CHECK_THROWS_AS(pruner.ratio(0.5, shrink::flops_of(input)), ShapeError);
  CHECK(model.a.weight.shape() == Shape{6, 1, 1, 3});
  CHECK(model(zeros({3, 4, 4, 3})).shape() == Shape{3, 2});
}

TEST_CASE("prune: again and again, also until a group of a convolution has one channel") {
  auto model = nn::make_model("resnext50_32x4d", {.classes = 10});
  const Shape input{2, 64, 64, 3};
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    const Pruner pruner(*model, input, {.multiple = 1});
    const PruningPlan plan = pruner.ratio(i == 0 ? 0.9 : 0.3, shrink::flops_of(input));
    CHECK(plan.after < plan.before);
    shrink::remove_channels(*model, plan.cut);
    backward(sum((*model)(uniform(input, -1, 1, RandomKey{1}))));
  }
}

TEST_CASE("prune: the least share is of what there was first") {
  auto model = nn::make_model("resnet20", {.classes = 10});
  const Shape input{1, 32, 32, 3};
  const nn::TensorShapes first = nn::tensor_shapes(*model);
  for (int i = 0; i < 4; ++i) {
    const Pruner pruner(*model, input, {.multiple = 1, .least = 0.3, .first_shapes = first});
    shrink::remove_channels(*model, pruner.ratio(1, shrink::flops_of(input)).cut);
  }
  for (const auto& [name, shape] : nn::tensor_shapes(*model)) {
    CAPTURE(name);
    if (shape.size() == 4) CHECK(shape[0] >= (3 * first.at(name)[0] + 9) / 10);
  }
  // Without them each pruning leaves a share of what the last one left.
  const Pruner pruner(*model, input, {.multiple = 1, .least = 0.3});
  shrink::remove_channels(*model, pruner.ratio(1, shrink::flops_of(input)).cut);
  CHECK(model->tensor("conv1.weight").size(0) < 5);
}

TEST_CASE("importance: taylor passes over frozen parameters") {
  Small model;
  model.freeze("a");
  model.freeze("bn");
  backward(sum(model(uniform({2, 8, 8, 3}, -1, 1, RandomKey{1}))));
  CHECK(scores_of_a(model, Criterion::taylor) == scores_of_a(model, Criterion::l2));
  model.unfreeze("bn");
  CHECK_THROWS_WITH_AS(scores_of_a(model, Criterion::taylor),
                       doctest::Contains("and bn.weight has none"), ValueError);
}
