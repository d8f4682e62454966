// Long chains under dynamic eviction: no recursion, each call again once where a tenth of the bytes
// is left, and the search for what to drop does not grow with the square of their length.
#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/ops/ops.h"
#include "brim/tests/nn/evicting.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("a chain of two thousand is made again piece by piece within a tenth of its bytes") {
  constexpr int kCalls = 2000;
  auto gradient = [](int64_t budget) {
    Evicting evicting(budget);
    Tensor w = uniform({64}, -1, 1, {1}).set_requires_grad();
    autograd::SavePolicyScope saving(&evicting.eviction);
    Tensor x = w;
    for (int i = 0; i < kCalls; ++i) x = tanh(std::move(x));
    backward(sum(std::move(x)));
    CHECK(evicting.account->stats().peak_live <= (budget > 0 ? budget : 1 << 30));
    return std::pair(w.grad().to_vector<float>(), evicting.eviction.counts());
  };
  const auto [expected, nothing] = gradient(0);
  CHECK(nothing.dropped == 0);
  const auto [values, counts] = gradient(kCalls / 10 * 256);
  CHECK(values == expected);
  CHECK(counts.dropped > kCalls * 8 / 10);
  CHECK(counts.rerun == counts.dropped);  // each once
}

TEST_CASE(
    "choosing among ten thousand values takes some dozen comparisons for each call that runs") {
  constexpr int kCalls = 10'000;
  Evicting evicting(kCalls / 5 * 4096, Device::meta());
  Tensor w = empty({1024}, {.device = Device::meta()}).set_requires_grad();
  autograd::SavePolicyScope saving(&evicting.eviction);
  Tensor x = w;
  for (int i = 0; i < kCalls; ++i) x = tanh(std::move(x));
  backward(sum(std::move(x)));
  const autograd::EvictionCounts counts = evicting.eviction.counts();
  CHECK(counts.dropped > kCalls / 2);
  CHECK(counts.looked_at < 3 * counts.dropped);
  CHECK(counts.comparisons < 50 * (2 * kCalls + counts.rerun));
}

TEST_CASE("a chain whose results nobody saves is made again without recursion") {
  Evicting evicting;
  autograd::SavePolicyScope saving(&evicting.eviction);
  Tensor w = full({1}, 0.5).set_requires_grad();
  Tensor x = w;
  for (int i = 0; i < 100'000; ++i) x = neg(std::move(x));
  Tensor y = exp(std::move(x));
  Tensor loss = sum(std::move(y));
  CHECK(evicting.drop());
  backward(loss);
  CHECK(w.grad().item<double>() == doctest::Approx(std::exp(0.5)).epsilon(1e-6));
  CHECK(evicting.eviction.counts().rerun == 100'001);
}
