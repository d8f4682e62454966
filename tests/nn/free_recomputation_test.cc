// Which results free recomputation keeps, and how much of what it drops is ever there again.
#include "brim/autograd/free_recomputation.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>

#include "brim/autograd/backward.h"
#include "brim/autograd/in_place.h"
#include "brim/autograd/node.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/ops.h"

using namespace brim;

namespace {

bool is_batch_norm(const autograd::OpEvent& event) {
  return event.op.name() == std::string_view("batch_norm");
}

bool has_residual(const autograd::OpEvent& event) {
  return is_batch_norm(event) && event.inputs.size() > 3;
}

}  // namespace

TEST_CASE("of residual sums free recomputation keeps every third") {
  struct Sums final : autograd::OpObserver {
    void ran(const autograd::OpEvent& event) override {
      if (event.node == nullptr || !is_batch_norm(event)) return;
      (event.phase == autograd::Phase::recompute ? again : all).insert(event.node->sequence);
    }
    std::set<uint64_t> all, again;
  };
  constexpr int64_t kChannels = 64;
  const Tensor weight = normal({kChannels, 3, 3, kChannels}, 0.05, {1}).set_requires_grad();
  const Tensor gain = ones({kChannels}), bias = zeros({kChannels});
  auto convolved = [&](Tensor x) { return conv2d(std::move(x), weight, {}, {.padding = 1}); };
  Sums sums;
  auto gradient = [&](autograd::SavePolicy* policy) {
    autograd::InPlaceScope in_place(true);
    Tensor loss = [&] {
      autograd::SavePolicyScope scope(policy);
      Tensor x = convolved(normal({2, 32, 32, kChannels}, 1, {2}));
      for (int i = 0; i < 7; ++i) {
        BatchNormOptions options{.residual = x, .activation = Activation::relu};
        Tensor y = convolved(std::move(x));
        x = batch_norm(std::move(y), gain, bias, {}, {}, std::move(options));
      }
      return sum(convolved(std::move(x)));
    }();
    sums.all.clear();
    backward(std::move(loss));
    std::vector<float> values = weight.grad().to_vector<float>();
    Tensor(weight).set_grad({});
    return values;
  };
  const std::vector<float> kept = gradient(nullptr);
  CHECK(sums.again.empty());
  autograd::FreeRecomputation policy;
  CHECK(gradient(&policy) == kept);
  REQUIRE(sums.all.size() == 7);
  std::string fates;
  for (uint64_t sum : sums.all) fates += sums.again.contains(sum) ? '-' : 'k';
  CHECK(fates == "--k--k-");
}

TEST_CASE("of whole networks free recomputation makes only ends of blocks again as a whole") {
  constexpr int64_t kImages = 64;
  struct Largest final : autograd::OpObserver {
    void ran(const autograd::OpEvent& event) override {
      if (event.phase != autograd::Phase::recompute) return;
      // Its result the next block adds as a whole. Once each.
      const bool is_end =
          has_residual(event) || event.module.find("downsample") != event.module.npos;
      if (is_end && event.outputs[0].size(0) == kImages) {
        CHECK(ends.insert(event.node).second);
        return;
      }
      const int64_t bytes = event.outputs[0].numel() * size_of(event.outputs[0].dtype());
      if (bytes > most) what = fmt::format("{} {}", event.module, to_string(event.outputs[0]));
      most = std::max(most, bytes);
      ++count;
    }
    int64_t most = 0, count = 0;
    std::string what;
    std::set<const autograd::Node*> ends;
  };
  for (const char* name : {"resnet18", "resnet50", "mobilenet_v2", "densenet121"}) {
    CAPTURE(std::string(name));
    auto model = nn::make_model(name, {.classes = 10, .device = Device::meta()});
    autograd::FreeRecomputation policy;
    autograd::InPlaceScope in_place(true);
    autograd::RandomScope random(5, 0, 0);
    Tensor loss = [&] {
      autograd::SavePolicyScope scope(&policy);
      return mean((*model)(empty({kImages, 224, 224, 3}, {.device = Device::meta()})));
    }();
    Largest largest;
    backward(std::move(loss));
    CAPTURE(largest.what);
    CHECK(largest.count > 0);
    // Late layers are made as a whole, of up to 33 MiB; what is larger is not.
    CHECK(largest.most <= int64_t{33} << 20);
  }
}
