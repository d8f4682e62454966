#include "brim/nn/module.h"

#include <doctest/doctest.h>

#include "brim/autograd/op.h"
#include "brim/nn/creation.h"
#include "brim/nn/layers.h"
#include "brim/ops/add.h"

using namespace brim;

namespace {

std::vector<std::string> names_of(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const nn::NamedTensor& t : tensors) names.push_back(t.name);
  return names;
}

using Names = std::vector<std::string>;

class Stem final : public nn::Module {
 public:
  Stem() { register_modules({{"conv", conv}, {"bn", bn}}); }
  Tensor forward(Tensor x) override {
    return bn(conv(std::move(x)), {.activation = Activation::relu});
  }
  nn::Conv2d conv{3, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn{8};
};

class Net final : public nn::Module {
 public:
  Net() {
    blocks.add<nn::Conv2d>(8, 8, nn::ConvOptions{.kernel = 3, .padding = 1});
    blocks.add<nn::ReLU>();
    blocks.append(std::make_unique<nn::Dropout>(0.5));
    register_modules({{"stem", stem}, {"blocks", blocks}, {"pool", pool}, {"fc", fc}});
  }
  Tensor forward(Tensor x) override {
    x = blocks(stem(std::move(x)));
    return fc(pool(std::move(x)));
  }
  Stem stem;
  nn::Sequential blocks;
  nn::GlobalAvgPool pool;
  nn::Linear fc{8, 4};
};

Tensor image() { return uniform({2, 6, 6, 3}, -1, 1, RandomKey{7}); }

struct Seen final : autograd::OpObserver {
  Names paths;
  std::vector<Where> lines;
  void ran(const autograd::OpEvent& event) override {
    paths.push_back(event.module + ":" + event.op.name());
    lines.push_back(event.where);
  }
};

}  // namespace

TEST_CASE("module: names in the order of registration, own tensors before children's") {
  Net net;
  CHECK(names_of(net.named_parameters()) == Names{"stem.conv.weight", "stem.bn.weight",
                                                  "stem.bn.bias", "blocks.0.weight",
                                                  "blocks.0.bias", "fc.weight", "fc.bias"});
  CHECK(names_of(net.named_buffers()) == Names{"stem.bn.running_mean", "stem.bn.running_var"});
  Names modules;
  for (const nn::NamedModule& m : net.named_modules()) modules.push_back(m.name);
  CHECK(modules == Names{"", "stem", "stem.conv", "stem.bn", "blocks", "blocks.0", "blocks.1",
                         "blocks.2", "pool", "fc"});
  CHECK(net.parameter_count() == 3 * 9 * 8 + 16 + 8 * 9 * 8 + 8 + 32 + 4);
  CHECK(net.tensor("blocks.0.bias").is_same(net.named_parameters()[4].tensor));
  CHECK(&net.module("stem.bn") == &net.stem.bn);
  CHECK(net.stem.bn.name() == "bn");
  CHECK_THROWS_WITH_AS(net.tensor("stem.bn.wight"),
                       "module: has no parameter or buffer 'stem.bn.wight'; did you mean "
                       "'stem.bn.weight'?",
                       ValueError);
  CHECK_THROWS_WITH_AS(net.module("stem.bm"),
                       "module: has no module 'stem.bm'; did you mean 'stem.bn'?", ValueError);
}

TEST_CASE("module: parameters ask for gradients and are charged as parameters") {
  memory::AccountStats before = memory::account(Device::cpu())->stats();
  Net net;
  memory::AccountStats after = memory::account(Device::cpu())->stats();
  auto grown = [&](memory::Category category) {
    auto i = static_cast<size_t>(category);
    return after.by_category[i] - before.by_category[i];
  };
  int64_t parameters = 0, buffers = 0;
  for (auto& [name, t] : net.named_parameters()) {
    CHECK(t.requires_grad());
    parameters += t.storage()->bytes();
  }
  for (auto& [name, t] : net.named_buffers()) {
    CHECK_FALSE(t.requires_grad());
    buffers += t.storage()->bytes();
  }
  CHECK(grown(memory::Category::parameters) == parameters);
  CHECK(grown(memory::Category::other) == buffers);
  CHECK(grown(memory::Category::activations) == 0);
}

TEST_CASE("module: ops know the module they run in, and the line that called it") {
  Net net;
  nn::initialize(net, 1);
  Seen seen;
  int line = __LINE__ + 1;
  net(image());
  CHECK(seen.paths == Names{"stem.conv:conv2d", "stem.bn:batch_norm", "blocks.0:conv2d",
                            "blocks.1:relu", "blocks.2:dropout", "pool:global_avg_pool",
                            "fc:linear"});
  for (const Where& where : seen.lines)
    CHECK(std::string(where.file_name()).ends_with("module_test.cc"));
  // A layer in a Sequential reports the line that called the Sequential.
  CHECK(seen.lines[2].line() < static_cast<unsigned>(line));
  CHECK(seen.lines[2].line() == seen.lines[3].line());
  CHECK(autograd::module_path().empty());
}

TEST_CASE("module: a module called by itself has its own name only") {
  Net net;
  nn::initialize(net, 1);
  Seen seen;
  net.stem(image());
  CHECK(seen.paths == Names{"stem.conv:conv2d", "stem.bn:batch_norm"});
}

TEST_CASE("module: train and eval reach every module") {
  Net net;
  nn::initialize(net, 1);
  CHECK(net.training());
  Tensor mean = net.tensor("stem.bn.running_mean");
  net.eval();
  for (const nn::NamedModule& m : net.named_modules()) CHECK_FALSE(m.module.training());
  std::vector<float> before = mean.to_vector<float>();
  Tensor first = net(image()), second = net(image());
  CHECK(first.to_vector<float>() == second.to_vector<float>());  // no dropout
  CHECK(mean.to_vector<float>() == before);                      // statistics stay
  net.train();
  for (const nn::NamedModule& m : net.named_modules()) CHECK(m.module.training());
  Tensor third = net(image()), fourth = net(image());
  CHECK(third.to_vector<float>() != fourth.to_vector<float>());
  CHECK(mean.to_vector<float>() != before);
}

TEST_CASE("module: without values it refuses to run, and says what to do") {
  Net net;
  CHECK_THROWS_WITH_AS(net(image()),
                       "module: parameter 'stem.conv.weight' has no values yet: call "
                       "nn::initialize(model, seed), or load some",
                       ValueError);
  for (auto& [name, t] : net.named_parameters()) fill(t, 0.5);
  CHECK_NOTHROW(net(image()));
}

TEST_CASE("module: a parameter may be replaced by a tensor that was drawn or listed") {
  nn::Linear line{1, 1};
  line.weight = from_vector<float>({2}, {1, 1});
  line.bias = uniform({1}, 0, 0, RandomKey{1});
  CHECK(line(from_vector<float>({3}, {1, 1})).item<float>() == 6);
}

TEST_CASE("module: zero_grad drops gradients") {
  Net net;
  for (auto& [name, t] : net.named_parameters()) t.set_grad(zeros_like(t));
  net.zero_grad();
  for (auto& [name, t] : net.named_parameters()) CHECK_FALSE(t.grad().defined());
}

TEST_CASE("module: freezing goes by whole names") {
  Net net;
  net.freeze("stem");
  net.freeze("fc.bias");
  for (auto& [name, t] : net.named_parameters()) {
    CAPTURE(name);
    CHECK(t.requires_grad() == !(name.starts_with("stem.") || name == "fc.bias"));
  }
  CHECK_THROWS_WITH_AS(net.freeze("block"),
                       "module: has no parameters at or below 'block'; did you mean 'blocks'?",
                       ValueError);
  net.unfreeze("");
  for (auto& [name, t] : net.named_parameters()) CHECK(t.requires_grad());
}

TEST_CASE("module: what is frozen stays in eval mode until it is not") {
  Net net;
  auto in_training = [&](const char* name) { return net.module(name).training(); };
  net.freeze("stem");
  net.freeze("fc.bias");  // no module is there
  for (int round = 0; round < 2; ++round) {
    CHECK_FALSE(in_training("stem"));
    CHECK_FALSE(in_training("stem.conv"));
    CHECK(in_training("fc"));
    CHECK(net.training());
    net.eval();
    CHECK_FALSE(in_training("fc"));
    net.train();
  }
  net.unfreeze("stem.conv");
  CHECK(in_training("stem.conv"));
  CHECK_FALSE(in_training("stem"));
  net.freeze("");
  net.unfreeze("fc");
  CHECK(in_training("fc"));
  CHECK_FALSE(net.training());
  net.eval();
  net.train();
  CHECK(in_training("fc"));
  CHECK_FALSE(in_training("stem"));
}

TEST_CASE("module: to converts everything, and keeps roles") {
  Net net;
  nn::initialize(net, 3);
  net.freeze("fc");
  std::vector<float> before = net.tensor("stem.conv.weight").to_vector<float>();
  net.to(Dtype::float64);
  for (auto& [name, t] : net.named_parameters()) {
    CHECK(t.dtype() == Dtype::float64);
    CHECK(t.requires_grad() == !name.starts_with("fc"));
    CHECK(t.storage()->category() == memory::Category::parameters);
  }
  for (auto& [name, t] : net.named_buffers()) CHECK(t.dtype() == Dtype::float64);
  CHECK(net.stem.conv.weight.to_vector<float>() == before);
  CHECK(net(uniform({2, 6, 6, 3}, -1, 1, RandomKey{7}, {.dtype = Dtype::float64})).dtype() ==
        Dtype::float64);
  CHECK_THROWS_WITH_AS(net.to(Dtype::float16),
                       "module: expected float32, float64 or bfloat16 parameters, got float16",
                       DtypeError);
  // What had no values has none afterwards.
  Net empty;
  empty.to(Dtype::float64);
  CHECK_THROWS_AS(empty(image()), ValueError);
}

TEST_CASE("module: made on the meta device it has shapes and no bytes") {
  memory::AccountStats before = memory::account(Device::cpu())->stats();
  auto net = nn::make<Net>({.dtype = Dtype::float64, .device = Device::meta()});
  CHECK(net->tensor("fc.weight").device().is_meta());
  CHECK(net->tensor("fc.weight").dtype() == Dtype::float64);
  Tensor y = (*net)(empty({5, 6, 6, 3}, {.dtype = Dtype::float64, .device = Device::meta()}));
  CHECK(y.shape() == Shape{5, 4});
  CHECK(memory::account(Device::cpu())->stats().requests == before.requests);
  CHECK(nn::creation_options().device.is_cpu());
}

TEST_CASE("module: a MetaScope lends shapes and gives the values back") {
  Net net;
  nn::initialize(net, 1);
  net.eval();
  Tensor before = net(image());
  Tensor weight = net.fc.weight;
  {
    nn::MetaScope on_meta(net);
    CHECK(net.fc.weight.device().is_meta());
    CHECK(net.fc.weight.requires_grad());
    CHECK(net.fc.weight.storage()->category() == memory::Category::parameters);
    CHECK(net(empty({3, 8, 8, 3}, {.device = Device::meta()})).shape() == Shape{3, 4});
  }
  CHECK(net.fc.weight.is_same(weight));
  CHECK(net(image()).to_vector<float>() == before.to_vector<float>());
  CHECK_THROWS([&] {
    nn::MetaScope on_meta(net);
    net(empty({3, 8, 8, 5}, {.device = Device::meta()}));
  }());
  CHECK(net.fc.weight.is_same(weight));
}

TEST_CASE("module: registration refuses what would not be found again") {
  struct Twice final : nn::Module {
    Twice() { register_modules({{"a", a}, {"a", b}}); }
    Tensor forward(Tensor x) override { return x; }
    nn::ReLU a, b;
  };
  CHECK_THROWS_WITH_AS(Twice(), "module: 'a' is registered twice", ValueError);
  struct Dotted final : nn::Module {
    Dotted() { register_module("a.b", a); }
    Tensor forward(Tensor x) override { return x; }
    nn::ReLU a;
  };
  CHECK_THROWS_WITH_AS(Dotted(), "module: expected a name without dots, got 'a.b'", ValueError);
  struct Shared final : nn::Module {
    Shared() { register_modules({{"a", a}, {"b", a}}); }
    Tensor forward(Tensor x) override { return x; }
    nn::ReLU a;
  };
  CHECK_THROWS_WITH_AS(
      Shared(), "module: 'b' is already registered as 'a'; a module has one parent", ValueError);
}

TEST_CASE("module: a module of one's own with a parameter of its own") {
  struct Bias final : nn::Module {
    explicit Bias(int64_t size) {
      register_parameter("bias", bias, {size}, nn::init::constant(2));
      register_buffer("calls", calls, {1}, 5);
    }
    Tensor forward(Tensor x) override { return add(std::move(x), bias, where()); }
    Tensor bias, calls;
  };
  Bias module(3);
  nn::initialize(module, 0);
  CHECK(module.bias.to_vector<float>() == std::vector<float>{2, 2, 2});
  CHECK(module.calls.to_vector<float>() == std::vector<float>{5});
  CHECK(module(ones({2, 3})).to_vector<float>() == std::vector<float>(6, 3));
  fill(module.calls, 1);
  nn::initialize(module, 0);
  CHECK(module.calls.to_vector<float>() == std::vector<float>{5});
}

TEST_CASE("a bypassed module gives what it is given, and has nothing any more") {
  Net net;
  nn::initialize(net, 1);
  net.eval();
  const int64_t before = net.parameter_count(), in_blocks = net.blocks.parameter_count();
  REQUIRE(in_blocks > 0);
  net.module("blocks").bypass();
  CHECK(net.parameter_count() == before - in_blocks);
  CHECK(net.bypassed_modules() == Names{"blocks"});
  for (const nn::NamedModule& part : net.named_modules()) CHECK(part.name != "blocks");
  const Tensor x = uniform({2, 8, 8, 3}, -1, 1, RandomKey{1});
  autograd::NoGradScope no_grad;
  CHECK(net(x).to_vector<float>() == net.fc(net.pool(net.stem(x))).to_vector<float>());
  net.stem.bn.bypass();  // called with an activation
  CHECK(net.bypassed_modules() == Names{"stem.bn", "blocks"});
  CHECK_THROWS_WITH_AS(net(x), "module: 'bn' is bypassed, and takes one tensor and nothing else",
                       ValueError);
}

TEST_CASE(
    "a convolution that is bypassed before its norm, or the norm behind it, gives its input") {
  nn::Conv2d conv(4, 4, {.kernel = 3, .padding = 1, .bias = false});
  nn::BatchNorm2d bn(4);
  nn::initialize(conv, 1);
  nn::initialize(bn, 1);
  const Tensor x = uniform({2, 5, 5, 4}, -1, 1, RandomKey{1});
  const std::vector<float> convolved = conv(x).to_vector<float>();
  SUBCASE("the norm") {
    bn.bypass();
    CHECK(bn(conv.for_norm(x)).to_vector<float>() == convolved);
  }
  SUBCASE("the convolution") {
    conv.bypass();
    const Conv2dWithStatistics given = conv.for_norm(x);
    CHECK(!given.mean.defined());
    CHECK(given.y.to_vector<float>() == x.to_vector<float>());
  }
}
