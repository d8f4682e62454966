// Which parameter gets which rate and decay; golden_test.cc shows what they then do.
#include "brim/optim/parameter_groups.h"

#include <doctest/doctest.h>

#include <map>

#include "brim/nn/layers.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"

using namespace brim;
using optim::ParameterGroup;

namespace {

struct Net final : nn::Module {
  nn::Conv2d conv1{3, 4, {.kernel = 3}};
  nn::BatchNorm2d bn1{4};
  nn::Conv2d conv10{4, 4, {.kernel = 1}};
  nn::Linear fc{4, 2};
  Net() { register_modules({{"conv1", conv1}, {"bn1", bn1}, {"conv10", conv10}, {"fc", fc}}); }
  Tensor forward(Tensor x) override { return x; }
};

// "rate factor, decay" of each parameter, for an optimizer with decay 0.5.
std::map<std::string, std::pair<double, double>> settings(
    nn::Module& model, const std::vector<ParameterGroup>& groups) {
  std::vector<nn::NamedTensor> parameters = model.named_parameters();
  std::erase_if(parameters, [](const auto& p) { return !p.tensor.requires_grad(); });
  auto each = optim::settings_of("test", parameters, groups, 0.5);
  std::map<std::string, std::pair<double, double>> result;
  for (size_t i = 0; i < each.size(); ++i)
    result[parameters[i].name] = {each[i].rate_factor, each[i].weight_decay};
  return result;
}

using Expected = std::map<std::string, std::pair<double, double>>;

const ParameterGroup kHead{.name = "head", .prefixes = {"fc"}, .rate_factor = 10};

}  // namespace

TEST_CASE("parameter groups: by whole names, with the optimizer's numbers where none are given") {
  Net net;
  CHECK(settings(net, {kHead,
                       {.name = "first", .prefixes = {"conv1", "bn1.bias"}, .weight_decay = 0}}) ==
        Expected{{"conv1.weight", {1, 0}},
                 {"conv1.bias", {1, 0}},
                 {"bn1.weight", {1, 0.5}},
                 {"bn1.bias", {1, 0}},
                 {"conv10.weight", {1, 0.5}},
                 {"conv10.bias", {1, 0.5}},
                 {"fc.weight", {10, 0.5}},
                 {"fc.bias", {10, 0.5}}});
}

TEST_CASE("parameter groups: no decay on norms and biases, inside of groups too") {
  Net net;
  Expected all{{"conv1.weight", {1, 0.5}}, {"conv1.bias", {1, 0}},      {"bn1.weight", {1, 0}},
               {"bn1.bias", {1, 0}},       {"conv10.weight", {1, 0.5}}, {"conv10.bias", {1, 0}},
               {"fc.weight", {1, 0.5}},    {"fc.bias", {1, 0}}};
  CHECK(settings(net, optim::no_decay(net)) == all);
  Expected grouped = all;
  grouped["fc.weight"] = {10, 0.5};
  grouped["fc.bias"] = {10, 0};
  CHECK(settings(net, optim::no_decay(net, {}, {kHead})) == grouped);
  Expected norms = all;
  for (const char* name : {"conv1.bias", "conv10.bias", "fc.bias"}) norms[name] = {1, 0.5};
  CHECK(settings(net, optim::no_decay(net, {.biases = false})) == norms);
  Expected biases = all;
  biases["bn1.weight"] = {1, 0.5};
  CHECK(settings(net, optim::no_decay(net, {.norms = false})) == biases);
  CHECK(optim::no_decay(net, {.norms = false, .biases = false}).empty());
  // A group of nothing else: one remains of it.
  CHECK(optim::no_decay(net, {}, {{.name = "norm", .prefixes = {"bn1"}}}).size() == 2);
}

TEST_CASE("parameter groups: frozen parameters are in none") {
  Net net;
  net.freeze("bn1");
  auto groups = optim::no_decay(net);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].prefixes == std::vector<std::string>{"conv1.bias", "conv10.bias", "fc.bias"});
  CHECK_NOTHROW(optim::Sgd(net.named_parameters(), {.groups = groups}));
}

TEST_CASE("parameter groups: both optimizers take them alike") {
  Net net;
  auto groups =
      optim::no_decay(net, {}, {{.name = "slow", .prefixes = {"conv1"}, .rate_factor = 0}});
  for (const std::string name : {"sgd", "adamw"}) {
    CAPTURE(name);
    for (auto& p : net.named_parameters()) {
      fill(p.tensor, 1);
      p.tensor.set_grad(zeros_like(p.tensor));
    }
    if (name == "sgd")
      optim::Sgd(net.named_parameters(), {.weight_decay = 0.5, .groups = groups}).step(0.5);
    else
      optim::AdamW(net.named_parameters(), {.weight_decay = 0.5, .groups = groups}).step(0.5);
    for (auto& p : net.named_parameters()) {
      CAPTURE(p.name);
      bool decays = p.name == "conv10.weight" || p.name == "fc.weight";
      CHECK(p.tensor.to_vector<float>()[0] == (decays ? 0.75f : 1.0f));
    }
  }
}

TEST_CASE("parameter groups: mistakes are named") {
  Net net;
  auto make = [&](const std::vector<ParameterGroup>& groups) {
    optim::Sgd(net.named_parameters(), {.groups = groups});
  };
  CHECK_THROWS_WITH_AS(make({kHead, {.name = "last", .prefixes = {"conv1", "fc.bias"}}}),
                       "sgd: 'fc.bias' is in two groups, 'head' and 'last'", ValueError);
  const char* mistyped =
      "sgd: the group 'a' has no parameters that are trained at or below 'conv11'; did you mean "
      "'conv1'?";
  ParameterGroup a{.name = "a", .prefixes = {"conv11", "fc"}};
  CHECK_THROWS_WITH_AS(make({a}), mistyped, ValueError);
  CHECK_THROWS_WITH_AS(make(optim::no_decay(net, {}, {a})), mistyped, ValueError);
  CHECK_THROWS_WITH_AS(make({{.name = "none"}}), "sgd: the group 'none' has no parameters",
                       ValueError);
  CHECK_THROWS_WITH_AS(make({{.name = "a", .prefixes = {"fc"}, .rate_factor = -1}}),
                       "sgd: expected a rate factor of at least 0, got -1", ValueError);
  CHECK_THROWS_AS(make({{.name = "a", .prefixes = {"fc"}, .weight_decay = -1}}), ValueError);
  net.freeze("fc");
  CHECK_THROWS_WITH_AS(make({kHead}),
                       "sgd: the group 'head' has no parameters that are trained at or below 'fc'",
                       ValueError);
}
