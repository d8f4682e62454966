// Fused ops beside their plain compositions, on shapes of training: milliseconds of the op, forward
// and where there is one backward, and as a ratio of its time to ours that of the composition: of
// squeeze-and-excitation (MobileNet V3), max pooling, whose places of winners are bytes (ResNet),
// softmax cross-entropy, bytes of images to normalised numbers, and updates of all parameters of a
// model. Of updates there are two peers: an op after the other, and the same kernels one parameter
// at a time. They take turns. For convolutions and batch norms see conv_bench, norm_bench and
// normalized_conv_bench.
//
//   fused_ops_bench [runs] [part of a case's name] [threads]
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "brim/autograd/backward.h"
#include "brim/base/parallel.h"
#include "brim/bench/timing.h"
#include "brim/core/launch.h"
#include "brim/memory/account.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/ops.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"

namespace brim {
namespace {

using Work = std::function<Tensor()>;  // undefined: there is no backward

struct Case {
  std::string name;
  Tensors leaves;
  Work fused, plain;
};

struct Times {
  std::vector<double> forward, backward;
};

void time_once(const Case& c, const Work& work, Times& times) {
  Tensor y;
  times.forward.push_back(bench::seconds_of([&] { y = work(); }));
  if (!y.defined() || !y.requires_grad()) return;
  Tensor dy = uniform(y.shape(), -1, 1, {9}, {.dtype = y.dtype()});
  times.backward.push_back(bench::seconds_of([&] { backward(y, {.grad = std::move(dy)}); }));
  for (const Tensor& leaf : c.leaves) leaf.set_grad({});
}

void print(const std::vector<double>& ours, const std::vector<double>& peer) {
  if (ours.empty()) return;
  fmt::print(" {:9.3f} {:8.2f}", bench::median(ours) * 1e3,
             bench::median(peer) / bench::median(ours));
}

void compare(const Case& c, int runs) {
  Times ours, peer;
  for (int run = -2; run < runs; ++run) {
    if (run == 0) ours = peer = {};
    time_once(c, c.fused, ours);
    time_once(c, c.plain, peer);
  }
  fmt::print("{:44}", c.name);
  print(ours.forward, peer.forward);
  print(ours.backward, peer.backward);
  fmt::print("\n");
}

Tensor leaf(const Shape& shape, uint64_t key, Dtype dtype = Dtype::float32) {
  return uniform(shape, -1, 2, {key}, {.dtype = dtype}).set_requires_grad();
}

Case squeeze_excitation_case(int64_t size, int64_t channels, int64_t squeezed,
                             Dtype dtype = Dtype::float32) {
  const Tensors in = {leaf({32, size, size, channels}, 1, dtype),
                      leaf({squeezed, 1, 1, channels}, 2), leaf({squeezed}, 3),
                      leaf({channels, 1, 1, squeezed}, 4), leaf({channels}, 5)};
  return {fmt::format("squeeze_excitation {}@{} {}", channels, size, to_string(dtype)), in,
          [=] { return squeeze_excitation(in[0], in[1], in[2], in[3], in[4]); },
          [=] {
            Tensor gate = reshape(global_avg_pool(in[0]), {in[0].size(0), 1, 1, in[0].size(3)});
            gate = relu(conv2d(cast(std::move(gate), Dtype::float32), in[1], in[2]));
            gate = hardsigmoid(conv2d(std::move(gate), in[3], in[4]));
            return mul(in[0], cast(std::move(gate), dtype));
          }};
}

// Windows of 3x3 with stride 2 as nine slices side by side, of which `max` keeps an int64 each.
Tensor plain_max_pool(const Tensor& x) {
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  const Tensor padded = pad(x, {{}, {1, 1}, {1, 1}, {}}, {.value = kLeast});
  const int64_t h = (x.size(1) - 1) / 2 + 1, w = (x.size(2) - 1) / 2 + 1;
  Tensors windows;
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t s = 0; s < 3; ++s) {
      const Tensor one = slice(padded, {{1, {.begin = r, .end = r + 2 * h - 1, .step = 2}},
                                        {2, {.begin = s, .end = s + 2 * w - 1, .step = 2}}});
      windows.push_back(reshape(one, {x.size(0), h, w, x.size(3), 1}));
    }
  return max(concat(std::move(windows), 4), {4});
}

Case max_pool_case(int64_t batch, int64_t size, int64_t channels, Dtype dtype) {
  const Tensor x = leaf({batch, size, size, channels}, 1, dtype);
  return {fmt::format("max_pool2d {}@{} {}", channels, size, to_string(dtype)),
          {x},
          [=] { return max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}); },
          [=] { return plain_max_pool(x); }};
}

Case cross_entropy_case(int64_t rows, int64_t classes) {
  const Tensor logits = leaf({rows, classes}, 1);
  Tensor labels = zeros({rows}, {.dtype = Dtype::int64});
  for (int64_t i = 0; i < rows; ++i) labels.data<int64_t>()[i] = 7 * i % classes;
  return {fmt::format("cross_entropy {}x{}", rows, classes),
          {logits},
          [=] { return cross_entropy(logits, labels); },
          [=] {
            const Tensor log_p = log_softmax(logits);
            return neg(mean(gather(log_p, -1, reshape(labels, {rows, 1}))));
          }};
}

Case normalize_case(int64_t batch, int64_t size, Dtype dtype) {
  const Tensor images =
      convert_to(uniform({batch, size, size, 3}, 0, 255, {1}, {.dtype = Dtype::float32}),
                 {.dtype = Dtype::uint8});
  const NormalizeOptions options{
      .mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}, .dtype = dtype};
  Tensor scale = empty({3}), shift = empty({3});
  for (size_t c = 0; c < 3; ++c) {
    scale.data<float>()[c] = 1 / (255 * options.std[c]);
    shift.data<float>()[c] = -options.mean[c] / options.std[c];
  }
  return {fmt::format("normalize {}x{} {}", batch, size, to_string(dtype)),
          {},
          [=] { return normalize(images, options); },
          [=] {
            Tensor y = add(mul(convert_to(images, {.dtype = Dtype::float32}), scale), shift);
            return dtype == Dtype::float32 ? y : cast(y, dtype);
          }};
}

constexpr double kRate = 0.01, kMomentum = 0.9, kDecay = 1e-4;

/// A model's parameters with gradients, and an update of all of them.
struct Updates {
  template <class Optimizer, class Options>
  static std::shared_ptr<Updates> of(const std::string& model, const Options& options) {
    auto updates = std::make_shared<Updates>();
    updates->model = nn::make_model(model, {.classes = 10, .seed = 1});
    for (const nn::NamedTensor& each : updates->model->named_parameters())
      each.tensor.set_grad(uniform(each.tensor.shape(), -1, 1, {3}));
    updates->optimizer = std::make_unique<Optimizer>(updates->model->named_parameters(), options);
    return updates;
  }

  std::shared_ptr<nn::Module> model;
  std::unique_ptr<optim::Optimizer> optimizer;
};

/// Who looks at each launch by itself gets it by itself.
class OneByOne final : public LaunchObserver {
  void launched(const LaunchEvent&) override {}
};

Work update_of(std::shared_ptr<Updates> updates) {
  return [=] {
    updates->optimizer->step(kRate);
    return Tensor();
  };
}

Work one_by_one(std::shared_ptr<Updates> updates) {
  return [=] {
    OneByOne observer;
    const LaunchObserverScope scope(observer);
    updates->optimizer->step(kRate);
    return Tensor();
  };
}

Tensor number(double value) { return full({1}, value); }

/// The formula of `Sgd` an op after the other, also the check that gradients are finite, of values
/// of their own.
Work plain_sgd(const Updates& updates) {
  struct Parameter {
    Tensor p, v, gradient;
  };
  auto parameters = std::make_shared<std::vector<Parameter>>();
  for (const nn::NamedTensor& each : updates.optimizer->parameters())
    parameters->push_back(
        {clone(each.tensor.detach()), zeros(each.tensor.shape()), each.tensor.grad()});
  const Tensor rate = number(kRate), momentum = number(kMomentum), decay = number(kDecay);
  return [=] {
    const autograd::NoGradScope no_grad;
    Tensor squares = number(0);
    for (const Parameter& each : *parameters)
      squares = add(squares, sum(mul(each.gradient, each.gradient)));
    if (!std::isfinite(squares.item<float>())) return Tensor();
    for (Parameter& each : *parameters) {
      const Tensor g = add(each.gradient, mul(each.p, decay));
      each.v = add(mul(each.v, momentum), g);
      each.p = sub(each.p, mul(each.v, rate));
    }
    return Tensor();
  };
}

using Report = std::function<void(const Case&)>;

void updates(const std::string& model, const Report& report) {
  const optim::SgdOptions options{.momentum = kMomentum, .weight_decay = kDecay};
  const auto sgd = Updates::of<optim::Sgd>(model, options);
  report({"sgd " + model, {}, update_of(sgd), plain_sgd(*sgd)});
  report({"sgd " + model + ", one by one", {}, update_of(sgd), one_by_one(sgd)});
  const auto adamw = Updates::of<optim::AdamW>(model, optim::AdamWOptions{});
  report({"adamw " + model + ", one by one", {}, update_of(adamw), one_by_one(adamw)});
}

void all_cases(const Report& report) {
  report(squeeze_excitation_case(56, 16, 8));
  report(squeeze_excitation_case(28, 72, 24));
  report(squeeze_excitation_case(28, 120, 32));
  report(squeeze_excitation_case(14, 480, 120));
  report(squeeze_excitation_case(14, 672, 168));
  report(squeeze_excitation_case(7, 960, 240));
  report(squeeze_excitation_case(56, 16, 8, Dtype::bfloat16));
  report(squeeze_excitation_case(14, 672, 168, Dtype::bfloat16));
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    report(max_pool_case(16, 112, 64, dtype));
    report(normalize_case(32, 224, dtype));
  }
  report(cross_entropy_case(128, 10));
  report(cross_entropy_case(128, 1000));
  report(cross_entropy_case(8 * 128 * 128, 21));
  for (const char* model : {"resnet20", "mobilenet_v2", "resnet18", "resnet50"})
    updates(model, report);
}

}  // namespace
}  // namespace brim

int main(int argc, char** argv) {
  auto argument = [&](int i, int otherwise) {
    return argc > i ? std::max(1, std::atoi(argv[i])) : otherwise;
  };
  if (argc > 3) brim::set_num_threads(argument(3, 1));
  // Bytes come from a cache, as in a training.
  auto account = std::make_shared<brim::memory::Account>(
      brim::Device::cpu(), std::make_unique<brim::memory::HostSource>(),
      brim::memory::planner_named("caching"));
  brim::memory::AccountScope scope(account);
  fmt::print("{:44} {:>9} {:>8} {:>9} {:>8}\n", "op", "fwd ms", "plain x", "bwd ms", "plain x");
  const std::string part = argc > 2 ? argv[2] : "";
  brim::all_cases([&](const brim::Case& c) {
    if (c.name.find(part) != std::string::npos) brim::compare(c, argument(1, 15));
  });
}
