#include "brim/shrink/channel_groups.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/ops.h"
#include "brim/shrink/channel_rules.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/public_ops.h"

using namespace brim;
using shrink::ChannelGroup;
using shrink::ChannelGroups;
using shrink::find_channel_groups;

namespace {

/// A model whose forward is a function of the test.
class Net final : public nn::Module {
 public:
  using Forward = std::function<Tensor(Net&, Tensor)>;
  explicit Net(Forward forward) : forward_(std::move(forward)) {}
  Tensor forward(Tensor x) override { return forward_(*this, std::move(x)); }

  nn::Conv2d& conv(const std::string& name, int64_t in, int64_t out,
                   const nn::ConvOptions& options = {.bias = false}) {
    return register_module(name, std::make_unique<nn::Conv2d>(in, out, options));
  }
  nn::BatchNorm2d& norm(const std::string& name, int64_t channels) {
    return register_module(name, std::make_unique<nn::BatchNorm2d>(channels));
  }
  nn::Linear& linear(const std::string& name, int64_t in, int64_t out) {
    return register_module(name, std::make_unique<nn::Linear>(in, out));
  }
  Tensor run(const std::string& name, Tensor x) { return module(name)(std::move(x)); }

 private:
  Forward forward_;
};

// "conv1.weight:0 bn.weight:0": each axis of the group, with the indices that a unit has if
// several.
std::string axes_of(const ChannelGroups& groups, const ChannelGroup& group) {
  std::string text;
  for (const shrink::ChannelAxis& axis : group.axes) {
    text += (text.empty() ? "" : " ") + groups.tensors[axis.tensor].name + ':' +
            std::to_string(axis.axis);
    if (axis.per_unit > 1) text += '*' + std::to_string(axis.per_unit);
  }
  return text;
}

std::vector<std::string> found(Net& net, const shrink::ChannelGroupOptions& options = {},
                               const Shape& input = {1, 8, 8, 3}) {
  const ChannelGroups groups = find_channel_groups(net, input, options);
  std::vector<std::string> all;
  for (const ChannelGroup& group : groups.groups)
    all.push_back(std::to_string(group.units) + ' ' + axes_of(groups, group));
  return all;
}

using Found = std::vector<std::string>;

}  // namespace

TEST_CASE("channel groups: a filter, its norm and the inputs of the next layer go together") {
  Net net([](Net& n, Tensor x) {
    x = relu(n.run("bn", n.run("conv1", std::move(x))));
    return global_avg_pool(n.run("conv2", std::move(x)));
  });
  net.conv("conv1", 3, 6);
  net.norm("bn", 6);
  net.conv("conv2", 6, 4);
  CHECK(found(net) == Found{"6 conv1.weight:0 bn.weight:0 bn.bias:0 bn.running_mean:0 "
                            "bn.running_var:0 conv2.weight:3"});
}

TEST_CASE("channel groups: a residual sum joins what it adds, the branch's inside is apart") {
  Net net([](Net& n, Tensor x) {
    x = n.run("stem", std::move(x));
    x = add(x, n.run("conv2", relu(n.run("conv1", x))));
    return global_avg_pool(n.run("head", std::move(x)));
  });
  net.conv("stem", 3, 6);
  net.conv("conv1", 6, 5);
  net.conv("conv2", 5, 6);
  net.conv("head", 6, 4);
  CHECK(found(net) == Found{"6 stem.weight:0 conv1.weight:3 conv2.weight:0 head.weight:3",
                            "5 conv1.weight:0 conv2.weight:3"});
}

TEST_CASE("channel groups: a sum with the input fixes the channels") {
  Net net([](Net& n, Tensor x) { return n.run("head", add(x, n.run("conv", x))); });
  net.conv("conv", 3, 3);
  net.conv("head", 3, 4);
  CHECK(found(net).empty());
}

TEST_CASE("channel groups: depthwise filters go with their channel, grouped ones with their like") {
  Net net([](Net& n, Tensor x) {
    x = n.run("depthwise", n.run("conv", std::move(x)));
    return n.run("head", n.run("grouped", std::move(x)));
  });
  net.conv("conv", 3, 6);
  net.conv("depthwise", 6, 12, {.kernel = 3, .padding = 1, .groups = 6});
  net.conv("grouped", 12, 8, {.groups = 2, .bias = false});
  net.conv("head", 8, 4);
  // Of 12 channels in two groups of 6, i goes with i + 6; channel i of conv makes 2 i and 2 i + 1.
  CHECK(found(net) == Found{"3 conv.weight:0*2 depthwise.weight:0*4 depthwise.bias:0*4 "
                            "grouped.weight:3*2",
                            "4 grouped.weight:0*2 head.weight:3*2"});
}

TEST_CASE("channel groups: behind a flattened image a channel has a column for each pixel") {
  for (bool channels_first : {false, true}) {
    Net net([=](Net& n, Tensor x) {
      x = n.run("conv", std::move(x));
      if (channels_first) x = permute(std::move(x), {0, 3, 1, 2});
      return n.run("fc", reshape(std::move(x), {1, -1}));
    });
    net.conv("conv", 3, 5, {.kernel = 3});
    net.linear("fc", 5 * 36, 4);
    CHECK(found(net) == Found{"5 conv.weight:0 conv.bias:0 fc.weight:1*36"});
    const ChannelGroups groups = find_channel_groups(net, {1, 8, 8, 3});
    const std::vector<int64_t>& columns = groups.groups.front().axes.back().indices;
    CHECK(columns[0] == 0);
    CHECK(columns[1] == (channels_first ? 1 : 5));    // of unit 0
    CHECK(columns[36] == (channels_first ? 36 : 1));  // of unit 1
  }
}

TEST_CASE("channel groups: concatenated channels keep their own groups") {
  Net net([](Net& n, Tensor x) {
    Tensor a = n.run("a", x), b = n.run("b", std::move(x));
    return n.run("head", n.run("bn", concat({a, b}, -1)));
  });
  net.conv("a", 3, 2);
  net.conv("b", 3, 4);
  net.norm("bn", 6);
  net.conv("head", 6, 4);
  const std::string norm = " bn.weight:0 bn.bias:0 bn.running_mean:0 bn.running_var:0";
  CHECK(found(net) ==
        Found{"2 a.weight:0" + norm + " head.weight:3", "4 b.weight:0" + norm + " head.weight:3"});
  const ChannelGroups groups = find_channel_groups(net, {1, 8, 8, 3});
  CHECK(groups.groups[1].axes.back().indices == std::vector<int64_t>{2, 3, 4, 5});
}

TEST_CASE("channel groups: squeeze-and-excite scales follow the channels they scale") {
  Net composed([](Net& n, Tensor x) {
    x = n.run("conv", std::move(x));
    Tensor scale = reshape(global_avg_pool(x), {1, 1, 1, -1});
    scale = sigmoid(n.run("up", relu(n.run("down", std::move(scale)))));
    return n.run("head", mul(std::move(x), std::move(scale)));
  });
  Net fused([](Net& n, Tensor x) {
    x = n.run("conv", std::move(x));
    x = squeeze_excitation(std::move(x), n.tensor("down.weight"), n.tensor("down.bias"),
                           n.tensor("up.weight"), n.tensor("up.bias"));
    return n.run("head", std::move(x));
  });
  for (Net* net : {&composed, &fused}) {
    net->conv("conv", 3, 6);
    net->conv("down", 6, 2, {.bias = true});
    net->conv("up", 2, 6, {.bias = true});
    net->conv("head", 6, 4);
    CHECK(found(*net) == Found{"6 conv.weight:0 down.weight:3 up.weight:0 up.bias:0 head.weight:3",
                               "2 down.weight:0 down.bias:0 up.weight:3"});
  }
}

TEST_CASE("channel groups: shuffled channels stay in rows of as many") {
  Net net([](Net& n, Tensor x) {
    x = n.run("conv", std::move(x));
    const Shape shape = x.shape();
    x = reshape(std::move(x), {shape[0], shape[1], shape[2], 2, shape[3] / 2});
    x = reshape(permute(std::move(x), {0, 1, 2, 4, 3}), shape);
    return n.run("head", std::move(x));
  });
  net.conv("conv", 3, 6);
  net.conv("head", 6, 4);
  CHECK(found(net) == Found{"3 conv.weight:0*2 head.weight:3*2"});
  const ChannelGroups groups = find_channel_groups(net, {1, 8, 8, 3});
  CHECK(groups.groups[0].axes[0].indices == std::vector<int64_t>{0, 3, 1, 4, 2, 5});
  CHECK(groups.groups[0].axes[1].indices == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("channel groups: halves stay halves; a part that the code names by its number stays") {
  Net halves([](Net& n, Tensor x) {
    x = n.run("conv", std::move(x));
    const int64_t half = x.size(3) / 2;
    std::vector<Tensor> parts = split(std::move(x), half, -1);
    return n.run("head", mul(parts[0], sigmoid(parts[1])));
  });
  halves.conv("conv", 3, 6);
  halves.conv("head", 3, 4);
  CHECK(found(halves) == Found{"3 conv.weight:0*2 head.weight:3"});

  Net parts([](Net& n, Tensor x) {
    x = n.run("conv", std::move(x));
    return n.run("head", slice(std::move(x), 3, {.begin = 1, .end = 4}));
  });
  parts.conv("conv", 3, 6);
  parts.conv("head", 3, 4);
  CHECK(found(parts).empty());
}

TEST_CASE("channel groups: a border of zero channels, the same on both sides, stays the same") {
  Net net([](Net& n, Tensor x) {
    x = n.run("conv1", std::move(x));
    Tensor shortcut = pad(x, {{}, {}, {}, {2, 2}});
    return n.run("head", add(std::move(shortcut), n.run("conv2", std::move(x))));
  });
  net.conv("conv1", 3, 4);
  net.conv("conv2", 4, 8);
  net.conv("head", 8, 4);
  CHECK(found(net) == Found{"4 conv1.weight:0 conv2.weight:0 conv2.weight:3 head.weight:3",
                            "2 conv2.weight:0*2 head.weight:3*2"});
}

TEST_CASE("channel groups: two modules that share a weight are one") {
  Net net([](Net& n, Tensor x) {
    x = n.run("conv", std::move(x));
    x = n.run("second", relu(n.run("first", std::move(x))));
    return n.run("head", std::move(x));
  });
  net.conv("conv", 3, 6);
  nn::Conv2d& first = net.conv("first", 6, 6);
  net.conv("second", 6, 6).weight = first.weight;
  net.conv("head", 6, 4);
  // The weight's outputs are its inputs the second time.
  CHECK(found(net) == Found{"6 conv.weight:0 first.weight:0 first.weight:3 head.weight:3"});
}

TEST_CASE("channel groups: means and sums over pixels pass channels, over channels fix them") {
  for (bool over_channels : {false, true}) {
    Net net([=](Net& n, Tensor x) {
      x = n.run("conv", std::move(x));
      if (over_channels) return mul(mean(x, {3}, {.keepdim = true}), n.run("head", x));
      return n.run("fc", mean(std::move(x), {1, 2}));
    });
    net.conv("conv", 3, 6);
    net.conv("head", 6, 4);
    net.linear("fc", 6, 4);
    CHECK(found(net) == (over_channels ? Found{} : Found{"6 conv.weight:0 fc.weight:1"}));
  }
}

TEST_CASE("channel groups: excluded layers keep their shapes, and names must be the model's") {
  Net net([](Net& n, Tensor x) {
    x = n.run("b", relu(n.run("a", std::move(x))));
    return n.run("head", relu(std::move(x)));
  });
  net.conv("a", 3, 6);
  net.conv("b", 6, 5);
  net.conv("head", 5, 4);
  CHECK(found(net).size() == 2);
  CHECK(found(net, {.exclude = {"a"}}) == Found{"5 b.weight:0 head.weight:3"});
  CHECK(found(net, {.exclude = {"b"}}).empty());
  CHECK_THROWS_WITH_AS(found(net, {.exclude = {"heat"}}),
                       "prune: there is no module or parameter 'heat'; did you mean "
                       "'head'?",
                       ValueError);
}

namespace {

class Softplus final : public autograd::Op {
 public:
  explicit Softplus(const char* name) : name_(name) {}
  const char* name() const override { return name_; }
  Tensors forward(const Tensors& in, const autograd::ForwardContext&) const override {
    return {empty_like(in[0])};
  }
  Tensors backward(autograd::BackwardCall&) const override { return {Tensor()}; }

 private:
  const char* name_;
};

Tensor softplus(Tensor x, const char* name) {
  return autograd::apply_one(std::make_shared<Softplus>(name), {std::move(x)}, Where::current());
}

}  // namespace

TEST_CASE(
    "channel groups: an op without a rule fixes its channels and is named; one line adds it") {
  auto net_with = [](const char* op) {
    auto net = std::make_unique<Net>([=](Net& n, Tensor x) {
      x = n.run("b", softplus(n.run("a", std::move(x)), op));
      return n.run("head", std::move(x));
    });
    net->conv("a", 3, 6);
    net->conv("b", 6, 5);
    net->conv("head", 5, 4);
    return net;
  };
  auto unknown = net_with("test_softplus_unknown");
  CHECK(found(*unknown) == Found{"5 b.weight:0 head.weight:3"});
  CHECK(find_channel_groups(*unknown, {1, 8, 8, 3}).unknown_ops ==
        std::vector<std::string>{"test_softplus_unknown"});
  CHECK(shrink::set_channel_rule("test_softplus", shrink::channel_rules::elementwise));
  CHECK(found(*net_with("test_softplus")).size() == 2);
}

TEST_CASE("channel groups: every public op has a line in the table of rules") {
  for (const auto& [op, header] : testing::public_ops()) {
    if (op == "scaled_dot_product_attention") continue;  // a composition of others
    CHECK_MESSAGE(shrink::channel_rule(op), op, " (ops/", header,
                  ") has no line in shrink/channel_rules.cc");
  }
}

TEST_CASE("channel groups: a map of one channel is no tie between those that it scales") {
  Net net([](Net& n, Tensor x) {
    Tensor y = n.run("a", std::move(x));
    y = mul(y, sigmoid(n.run("map", y)));
    return n.run("head", std::move(y));
  });
  net.conv("a", 3, 6);
  net.conv("map", 6, 1);
  net.conv("head", 6, 4);
  CHECK(found(net) == Found{"6 a.weight:0 map.weight:3 head.weight:3"});
}

TEST_CASE("channel groups: parameters in bfloat16 make no difference") {
  for (const char* name : {"vgg16_bn", "mobilenet_v3_small", "resnet20", "densenet121"}) {
    CAPTURE(name);
    const auto groups_of = [&](Dtype dtype) {
      auto model = nn::make_model(name, {.seed = {}, .dtype = dtype, .device = Device::meta()});
      const ChannelGroups groups = find_channel_groups(*model, {1, 64, 64, 3});
      CHECK(groups.unknown_ops.empty());
      std::vector<std::string> all;
      for (const ChannelGroup& group : groups.groups)
        all.push_back(std::to_string(group.units) + ' ' + axes_of(groups, group));
      return all;
    };
    const std::vector<std::string> whole = groups_of(Dtype::float32);
    CHECK(whole.size() > 5);
    CHECK(groups_of(Dtype::bfloat16) == whole);
  }
}
