// Batch norms folded into convolutions: every model of the registry gives the logits that it gave,
// what cannot be folded stays, and a folded model is not taken for what it was.
#include "brim/nn/fold.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/autograd/in_place.h"
#include "brim/base/parallel.h"
#include "brim/nn/eval_scope.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/resize.h"
#include "brim/nn/weights.h"
#include "brim/ops/add.h"
#include "brim/ops/mul.h"
#include "brim/ops/slice.h"
#include "brim/tests/nn/model_golden.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// Norms far from the identity, with variances beside which epsilon counts: where a factor, a
/// summand or epsilon is left out, logits are off by far more than rounding.
void set_norms(nn::Module& model) {
  uint64_t key = 100;
  const auto draw = [&](const Tensor& tensor, double low, double high) {
    fill_uniform(tensor, low, high, RandomKey{++key});
  };
  for (const nn::NamedModule& named : model.named_modules())
    if (auto* norm = dynamic_cast<nn::BatchNorm2d*>(&named.module)) {
      draw(norm->weight, 0.1, 0.2);
      draw(norm->bias, -0.5, 0.5);
      draw(norm->running_mean, -0.3, 0.3);
      draw(norm->running_var, 0.01, 0.03);
    }
}

/// Half the channels of every layer, and half of each group: a fourth of the weights, most of which
/// the large ResNets have.
nn::TensorShapes halved(const std::string& name) {
  const auto usual =
      nn::make_model(name, {.classes = 10, .seed = std::nullopt, .device = Device::meta()});
  nn::TensorShapes shapes = nn::tensor_shapes(*usual);
  for (auto& [tensor, shape] : shapes) {
    if (!tensor.starts_with("fc.")) shape[0] /= 2;
    if (shape.size() > 1 && shape.back() != 3) shape[shape.size() - 1] /= 2;
  }
  return shapes;
}

/// The registry's, smaller. VGG's classifier has most of its weights, and no norm.
std::unique_ptr<nn::Module> small_model(const std::string& name, Dtype dtype) {
  nn::ModelSizes sizes;
  if (name.starts_with("vgg"))
    sizes.shapes = {{"classifier.0.weight", {16, 25088}},
                    {"classifier.0.bias", {16}},
                    {"classifier.3.weight", {16, 16}},
                    {"classifier.3.bias", {16}},
                    {"classifier.6.weight", {10, 16}}};
  if (name == "alexnet")
    sizes.shapes = {{"classifier.1.weight", {16, 9216}},
                    {"classifier.1.bias", {16}},
                    {"classifier.4.weight", {16, 16}},
                    {"classifier.4.bias", {16}},
                    {"classifier.6.weight", {10, 16}}};
  if (name != "resnet20" && (name.find("resnet") != name.npos || name.starts_with("resnext")))
    sizes.shapes = halved(name);
  auto model = nn::make_model(name, {.classes = 10, .seed = 1, .dtype = dtype, .sizes = sizes});
  set_norms(*model);
  model->eval();
  return model;
}

std::vector<double> results(nn::Module& model, const Tensor& x) {
  autograd::NoGradScope no_grad;
  return model(x).to_vector<double>();
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

/// Which results are NaN, and which are infinite with which sign.
std::vector<double> classes_of(const std::vector<double>& values) {
  std::vector<double> classes;
  for (double value : values)
    classes.push_back(std::isnan(value) ? 2 : std::isinf(value) ? std::copysign(1, value) : 0);
  return classes;
}

/// A model of a few layers and a forward of its own.
class Net final : public nn::Module {
 public:
  using Forward = std::function<Tensor(Net&, Tensor)>;
  explicit Net(Forward forward) : forward_(std::move(forward)) {
    register_modules({{"conv", conv}, {"bn", bn}, {"other", other}, {"other_bn", other_bn}});
    nn::initialize(*this, 7);
    set_norms(*this);
    eval();
  }
  Tensor forward(Tensor x) override { return forward_(*this, std::move(x)); }

  nn::Conv2d conv{3, 8, {.kernel = 3, .padding = 1, .bias_init = nn::init::constant(0.25)}};
  nn::BatchNorm2d bn{8, {.epsilon = 1e-3}};
  nn::Conv2d other{8, 8, {.bias = false}};
  nn::BatchNorm2d other_bn{8};

 private:
  Forward forward_;
};

Tensor conv_bn_relu(Net& net, Tensor x) {
  return net.bn(net.conv(std::move(x)), {.activation = Activation::relu});
}

Tensor images(int64_t batch, int64_t size) {
  return normal({batch, size, size, 3}, 1, RandomKey{5});
}

}  // namespace

TEST_CASE("fold: every model of the registry gives its logits, and the norms are gone") {
  for (const std::string& name : nn::model_names()) {
    CAPTURE(name);
    const int64_t size = read_golden(name).small_size();
    auto model = small_model(name, Dtype::float64);
    const Tensor x = normal({2, size, size, 3}, 1, RandomKey{3}, {.dtype = Dtype::float64});
    const std::vector<double> exact = results(*model, x);
    model->to(Dtype::float32);
    const Tensor rounded = convert_to(x, {.dtype = Dtype::float32});
    const double of_float32 = distance(results(*model, rounded), exact);

    const nn::FoldReport report = nn::fold_batch_norms(*model, {1, size, size, 3});
    const std::vector<double> folded = results(*model, rounded);
    // Both round as often, at other places. As one is a random walk away from the exact result, so
    // is the other; 4 is for the luck of either.
    CHECK(distance(folded, exact) <= 4 * of_float32);
    if (name.starts_with("densenet")) {
      // Of a layer's two norms one is in front of a convolution; so are those of three transitions
      // and the last, and behind one is that of the stem.
      CHECK(report.left.size() == report.folded.size() + 3);
      CHECK(report.folded.size() == 1 + 58);
    } else {
      CHECK(report.left.empty());
      CHECK(report.folded.empty() == (name == "alexnet" || name == "vgg16"));
    }
    for (const std::string& norm : report.folded)
      for (const nn::NamedTensor& tensor : model->named_parameters())
        CHECK(!nn::is_at_or_below(tensor.name, norm));
    const autograd::InPlaceScope in_place(true);
    CHECK(results(*model, rounded) == folded);
  }
}

TEST_CASE("fold: what is not finite comes out as it does without folding") {
  const auto check = [](nn::Module& model, const Tensor& x) {
    const auto plain = classes_of(results(model, x));
    CHECK(std::ranges::count(plain, 2.0) > 0);
    nn::fold_batch_norms(model, {1, 64, 64, 3});
    CHECK(classes_of(results(model, x)) == plain);
  };
  for (const char* name : {"resnet20", "resnet18", "mobilenet_v2", "mobilenet_v3_small",
                           "densenet121", "shufflenet_v2_x1_0"})
    for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
      CAPTURE(std::string(name));
      CAPTURE(to_string(dtype));
      const auto image = [](const Tensor& x) { return slice(x, 0, {.begin = 0, .end = 1}); };
      for (double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
        const Tensor x = uniform({2, 64, 64, 3}, -2, 2, RandomKey{1}, {.dtype = dtype});
        fill(image(x), value);
        check(*small_model(name, dtype), x);
      }
      const auto model = small_model(name, dtype);
      fill(slice(image(model->named_parameters().front().tensor), 1, {.begin = 0, .end = 1}),
           std::nan(""));
      check(*model, uniform({1, 64, 64, 3}, -2, 2, RandomKey{1}, {.dtype = dtype}));
    }
}

TEST_CASE("fold: weight and bias are those of the formula, rounded once") {
  Net net(conv_bn_relu);
  const auto weight = net.conv.weight.to_vector<double>(),
             gamma = net.bn.weight.to_vector<double>(), beta = net.bn.bias.to_vector<double>(),
             mean = net.bn.running_mean.to_vector<double>(),
             variance = net.bn.running_var.to_vector<double>();
  nn::fold_batch_norms(net, {1, 8, 8, 3});
  const auto folded = net.conv.weight.to_vector<float>(), bias = net.conv.bias.to_vector<float>();
  for (size_t k = 0; k < 8; ++k) {
    const double scale = gamma[k] / std::sqrt(variance[k] + 1e-3);
    CHECK(bias[k] == static_cast<float>(beta[k] + (0.25 - mean[k]) * scale));
    for (size_t i = k * 27; i < (k + 1) * 27; ++i)
      CHECK(folded[i] == static_cast<float>(weight[i] * scale));
  }
}

TEST_CASE("fold: what is read elsewhere too, or shared, stays as it is") {
  const Net::Forward stays[] = {
      [](Net& net, Tensor x) {  // the result is added to what the norm makes of it
        Tensor y = net.conv(std::move(x));
        return net.bn(y, {.residual = y});
      },
      [](Net& net, Tensor x) {  // two norms of one result
        Tensor y = net.conv(std::move(x));
        return add(net.bn(y), net.other_bn(y));
      },
      [](Net& net, Tensor x) {  // one norm of two results
        return net.bn(net.other(net.bn(net.conv(std::move(x)))));
      },
      [](Net& net, Tensor x) {  // something in between
        Tensor y = net.conv(std::move(x));
        return net.bn(mul(y, y));
      },
      [](Net& net, Tensor x) {  // the norm's result is not what the model gives
        Tensor y = net.conv(std::move(x));
        net.bn(y);
        return y;
      },
      [](Net& net, Tensor x) {  // a view in between
        return net.bn(net.conv(std::move(x)).view_as({64, 8}));
      },
  };
  for (const Net::Forward& forward : stays) {
    CAPTURE(&forward - stays);
    Net net(forward);
    const Tensor x = images(1, 8);
    const std::vector<double> before = results(net, x);
    const nn::FoldReport report = nn::fold_batch_norms(net, x.shape());
    CHECK(report.folded.empty());
    CHECK(report.left.size() == 2);
    CHECK(results(net, x) == before);
  }
}

TEST_CASE("fold: what is folded runs with other weights and sizes, without stale packing") {
  Net net(conv_bn_relu);
  const Tensor x = images(2, 16);
  Net unfolded(conv_bn_relu);
  nn::fold_batch_norms(net, {1, 8, 8, 3});
  const std::vector<double> first = results(net, x);
  // 30 roundings of sums up to 200 could add up to 4e-4; as a random walk they are far below.
  CHECK(distance(first, results(unfolded, x)) < 1e-5);
  CHECK(distance(results(net, images(1, 9)), results(unfolded, images(1, 9))) < 1e-5);
  // Relu of twice is twice relu of, to the bit.
  fill(net.conv.bias, 0);
  const std::vector<double> before = results(net, x);
  copy_into(net.conv.weight, mul(net.conv.weight, full({1}, 2)));
  std::vector<double> twice = results(net, x);
  CHECK(twice != before);
  for (double& v : twice) v /= 2;
  CHECK(twice == before);
}

TEST_CASE("fold: gradients flow through a folded model as through the other") {
  Tensor gradients[2];
  for (bool folds : {false, true}) {
    Net net([](Net& n, Tensor x) {
      Tensor y = conv_bn_relu(n, std::move(x));
      return n.other_bn(n.other(y), {.residual = y, .activation = Activation::hardswish});
    });
    if (folds) CHECK(nn::fold_batch_norms(net, {1, 8, 8, 3}).folded.size() == 2);
    Tensor x = images(1, 8);
    x.set_requires_grad();
    Tensor y = net(x);
    backward(y, {.grad = ones(y.shape())});
    gradients[folds] = x.grad();
  }
  const auto of_both = gradients[0].to_vector<double>();
  const double most =
      std::abs(*std::ranges::max_element(of_both, {}, [](double v) { return std::abs(v); }));
  // Sums of 8 and 72 terms, each of which three roundings changed.
  CHECK(distance(of_both, gradients[1].to_vector<double>()) < 3 * 80 * 6e-8 * most);
}

TEST_CASE("fold: a folded model is for inference alone, and says so") {
  TempFolder folder;
  const std::string file = folder.path() + "/w.safetensors";
  Net net(conv_bn_relu);
  nn::save_weights(net, file);
  net.train();
  CHECK(contains(error_text<ValueError>([&] {
                   nn::fold_batch_norms(net, {1, 8, 8, 3});
                 }),
                 "expected a model in eval mode, got 'bn' in training"));
  {
    const nn::EvalScope eval(net);
    nn::fold_batch_norms(net, {1, 8, 8, 3});
  }
  CHECK(!net.conv.training());
  CHECK(net.other_bn.training());  // not folded, and as it was
  CHECK(net.is_folded());
  CHECK(!net.other.is_folded());
  const auto refused = [](const auto& call) {
    return contains(error_text<ValueError>(call), "folded");
  };
  CHECK(refused([&] { net.train(); }));
  CHECK(refused([&] { net.unfreeze("bn"); }));
  CHECK(refused([&] { nn::save_weights(net, file); }));
  CHECK(refused([&] { nn::load_weights(net, file); }));
  net.eval();
  const std::vector<double> once = results(net, images(1, 8));
  CHECK(nn::fold_batch_norms(net, {1, 8, 8, 3}).folded == std::vector<std::string>{"bn"});
  CHECK(results(net, images(1, 8)) == once);
}

TEST_CASE("fold: a norm that gets something else than its convolution's result says so") {
  bool strays = false;
  Net net([&](Net& n, Tensor x) {
    Tensor y = n.conv(std::move(x));
    if (strays) y = add(y, y);
    return n.bn(std::move(y));
  });
  nn::fold_batch_norms(net, {1, 8, 8, 3});
  strays = true;
  CHECK(contains(error_text<ValueError>([&] { results(net, images(1, 8)); }),
                 "expected the norm folded into 'conv' to be called on its result"));
}
