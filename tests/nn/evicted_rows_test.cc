// Rows of a result that dynamic eviction dropped, read from one that it left there and might drop:
// the bits of where all is kept, and never the whole.
#include <doctest/doctest.h>

#include "brim/autograd/backward.h"
#include "brim/ops/ops.h"
#include "brim/tests/nn/evicting.h"
#include "brim/tests/support/replays.h"

using namespace brim;
using namespace brim::testing;

namespace {

constexpr int64_t kImages = 6, kSize = 64, kChannels = 64;  // a slice has two images
constexpr int64_t kBytes = kImages * kSize * kSize * kChannels * 4;

/// What is live as something runs again.
struct LiveAtReplays final : autograd::OpObserver {
  explicit LiveAtReplays(const memory::Account& account) : of(account) {}
  void ran(const autograd::OpEvent& event) override {
    if (event.phase == autograd::Phase::recompute) most = std::max(most, of.stats().live);
  }
  const memory::Account& of;
  int64_t most = 0;
};

enum class Drops { nothing, result, result_and_source };

struct Run {
  std::vector<std::vector<float>> gradients;
  int64_t peak = 0;
  int64_t most_at_replays = 0;  ///< beyond what was held before backward
  int64_t rows = 0, most_rows = 0;
  std::vector<std::string> names;
};

/// Two convolutions read y = exp(x) + b, which saves nothing of its own; exp saves its result, the
/// source of y's rows.
Run run(Drops drops) {
  Evicting evicting;
  autograd::SavePolicyScope saving(&evicting.eviction);
  Tensor x = uniform({kImages, kSize, kSize, kChannels}, -1, 1, {1}).set_requires_grad();
  Tensor b = uniform({kChannels}, -1, 1, {2}).set_requires_grad();
  Tensor w = uniform({8, 1, 1, kChannels}, -1, 1, {3}).set_requires_grad();
  Tensor source = exp(x);
  std::weak_ptr<Storage> of_source = source.storage();
  Tensor y = add(source, b);
  std::weak_ptr<Storage> of_y = y.storage();
  Tensor first = conv2d(y, w, Tensor());
  Tensor z = add(std::move(first), conv2d(std::move(y), w, Tensor()));
  if (drops != Drops::nothing)
    while (evicting.drop()) continue;  // the source is held by this program
  CHECK(of_y.expired() == (drops != Drops::nothing));
  source = Tensor();
  if (drops == Drops::result_and_source) CHECK(evicting.drop());
  CHECK(of_source.expired() == (drops == Drops::result_and_source));

  Run result;
  const Tensor dz = normal(z.shape(), 1, {9});
  const int64_t held = evicting.account->stats().live;
  evicting.account->reset_peak();
  Replays replays;
  LiveAtReplays live(*evicting.account);
  backward(std::move(z), {.grad = dz});
  result.peak = evicting.account->stats().peak_live;
  result.most_at_replays = live.most - held;
  result.rows = replays.rows;
  result.most_rows = replays.most_rows;
  result.names = replays.names;
  for (const Tensor& leaf : {x, b, w}) result.gradients.push_back(leaf.grad().to_vector<float>());
  return result;
}

}  // namespace

TEST_CASE("rows come from a source that is there and might be dropped") {
  const Run kept = run(Drops::nothing);
  CHECK(kept.names.empty());
  const Run evicted = run(Drops::result);
  CHECK((evicted.gradients == kept.gradients));
  // Three slices for each convolution, and the source is not made again.
  CHECK(evicted.names == std::vector<std::string>(6, "add"));
  CHECK(evicted.rows == 2 * kImages);
  CHECK(evicted.most_rows == 2);
  // Beside one slice there is the gradient from the first of the two convolutions, and no whole.
  CHECK(evicted.most_at_replays < kBytes + kBytes / 2);
  CHECK(evicted.peak <= kept.peak);
}

TEST_CASE("where the source is gone too, which its own backward will read, both are made whole") {
  const Run kept = run(Drops::nothing);
  const Run evicted = run(Drops::result_and_source);
  CHECK((evicted.gradients == kept.gradients));
  CHECK(evicted.names.front() == "exp");
  CHECK(evicted.most_rows == kImages);
  CHECK(evicted.peak <= kept.peak);
}
