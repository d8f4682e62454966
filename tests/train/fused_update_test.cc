// Updates fused into backward: the bits of ordinary steps, fewer gradients at once, bytes as
// predicted; and what can still be undone, and what cannot.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "brim/autograd/backward.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/train/fused_training.h"

using namespace brim;
using namespace brim::testing;

namespace {

// The most bytes of gradients at once.
class GradientPeak final : public memory::Recorder {
 public:
  explicit GradientPeak(std::shared_ptr<memory::Account> account) : account_(std::move(account)) {
    account_->set_recorder(this);
  }
  ~GradientPeak() override { account_->set_recorder(nullptr); }
  GradientPeak(const GradientPeak&) = delete;
  GradientPeak& operator=(const GradientPeak&) = delete;

  void allocated(const memory::Block& block) override { add(block.category, block.bytes); }
  void released(const memory::Block& block) noexcept override { add(block.category, -block.bytes); }
  void recategorized(const memory::Block& block, memory::Category before) noexcept override {
    add(before, -block.bytes);
    add(block.category, block.bytes);
  }
  int64_t peak() const { return peak_; }

 private:
  void add(memory::Category category, int64_t bytes) {
    if (category == memory::Category::gradients) peak_ = std::max(peak_, now_ += bytes);
  }
  std::shared_ptr<memory::Account> account_;
  int64_t now_ = 0, peak_ = 0;
};

/// The most bytes of gradients at once in some updates, whose bytes are as planned.
int64_t most_gradients(const Case& c, const Planned& planned) {
  int64_t most = 0;
  {
    Run run(c);
    run.update();
    GradientPeak peak(planned.account);
    for (int i = 0; i < 4; ++i) run.update();
    most = peak.peak();
  }
  const memory::AccountStats stats = planned.account->stats();
  CHECK(stats.peak_live == planned.plan.predicted.peak_live);
  CHECK(stats.peak_reserved == planned.plan.predicted.peak_reserved);
  CHECK(stats.mismatches == 0);
  return most;
}

const std::vector<Case> kCases{{"small", "sgd"},  {"small", "adamw"},    {"deep", "sgd"},
                               {"deep", "adamw"}, {"few pixels", "sgd"}, {"few pixels", "adamw"}};

}  // namespace

TEST_CASE("losses, parameters, statistics, state and averages are those of ordinary steps") {
  for (const Case& c : kCases) {
    CAPTURE(c.name());
    Run ordinary(plain(c));
    Planned planned(c);
    Run fused(c);
    for (int i = 0; i < 8; ++i) {
      REQUIRE(fused.update() == ordinary.update());
      REQUIRE(fused.values() == ordinary.values());
      REQUIRE(fused.optimizer->gradient_norm() == ordinary.optimizer->gradient_norm());
    }
    CHECK(fused.step.updates() == 8);
    CHECK(fused.optimizer->steps() == 8);
    CHECK_FALSE(fused.has_gradients());
  }
}

TEST_CASE("gradients that come in factors are never held, and bytes are as predicted") {
  for (const char* optimizer : {"sgd", "adamw"}) {
    const Case c{"few pixels", optimizer};
    CAPTURE(c.name());
    const int64_t gradients = most_gradients(c, Planned(c));
    constexpr int64_t kTied = 128 * 9 * 128 * 4, kBiases = (512 + 3 * 128) * 4;
    CHECK(gradients >= kTied);
    CHECK(gradients <= kTied + kBiases);  // but not beside one of 256 KiB
  }
}

TEST_CASE("gradients are never all held at once, and bytes are as predicted") {
  for (const char* optimizer : {"sgd", "adamw"}) {
    int64_t gradients[2], arena[2];
    for (bool fused : {false, true}) {
      Case c{"deep", optimizer, fused};
      CAPTURE(c.name());
      const Planned planned(c);
      gradients[fused] = most_gradients(c, planned);
      CHECK(planned.plan.plan->programs.back().sections.size() == 2);  // micro-step and update
      arena[fused] = planned.plan.plan->arena_bytes;
    }
    constexpr int64_t kLayer = (64 * 64 + 64) * 4;
    CHECK(gradients[false] > 5 * kLayer);
    // The second layer's, which waits for its second use, and one other layer's.
    CHECK(gradients[true] <= 2 * kLayer);
    // Activations are small beside weights here: the difference in gradients is one of the peak.
    CHECK(arena[true] < arena[false] - 2 * kLayer);
  }
}

namespace {

// One piece of the source, never used twice; says of itself what it is told to.
class Slab final : public memory::Planner {
 public:
  Slab(memory::Source& source, bool reserves)
      : Planner(source), reserves_(reserves), base_(static_cast<char*>(source.allocate(kSlab))) {}
  ~Slab() override { source().deallocate(base_, kSlab); }
  std::string_view name() const override { return "slab"; }
  memory::Placement place(const memory::Request& request) override {
    if (request.bytes > kSlab - top_) return {};
    char* address = base_ + std::exchange(top_, top_ + request.bytes);
    live_ += request.bytes;
    return {address, reinterpret_cast<void*>(request.bytes)};
  }
  void release(const memory::Placement& placement) noexcept override {
    live_ -= reinterpret_cast<intptr_t>(placement.token);
  }
  int64_t cached() const override { return kSlab - live_; }
  bool reserves_steps() const override { return reserves_; }

 private:
  static constexpr int64_t kSlab = 32 << 20;
  bool reserves_;
  char* base_;
  int64_t top_ = 0, live_ = 0;
};

}  // namespace

TEST_CASE("a planner that someone wrote says itself whether it has a step's bytes beforehand") {
  double expected = 0;
  {
    Planned planned({});
    expected = Run({}).update();
  }
  for (bool reserves : {true, false}) {
    auto account = std::make_shared<memory::Account>(
        Device::cpu(), std::make_unique<memory::HostSource>(),
        [&](memory::Source& source) { return std::make_unique<Slab>(source, reserves); });
    memory::AccountScope scope(account);
    CHECK(account->reserves_steps() == reserves);
    Run run({});
    if (reserves)
      CHECK(run.update() == expected);
    else
      CHECK_THROWS_WITH_AS(run.update(), doctest::Contains("not under the slab planner"),
                           ValueError);
  }
  for (const char* ours : {"caching", "direct"})
    CHECK(!memory::capped_host_account(ours)->reserves_steps());
}

TEST_CASE("what fused updates cannot do is refused, with the reason") {
  auto model = make_model({}, Device::cpu());
  auto sgd = make_optimizer({}, *model);
  CHECK_THROWS_WITH_AS(
      TrainStep(*model, *sgd, {.clip = {.norm = 1}, .fused_update = true}),
      "train step: a fused update cannot clip to a norm of 1: it is that of all gradients, and "
      "parameters are updated before the last one is known. Clip by value, or leave fused_update "
      "off",
      ValueError);
  Run unplanned({});
  CHECK_THROWS_WITH_AS(unplanned.update(),
                       "train step: a fused update cannot be undone, so its bytes must be reserved "
                       "before it begins: "
                       "train under memory::arena_planner with a plan of it, not under the caching "
                       "planner, or leave "
                       "fused_update off",
                       ValueError);
  Planned planned({});
  Run run({});
  auto before = run.values();
  run.step.begin();
  const char* message =
      "train step: with fused_update the update happens during backward, from the gradients of one "
      "micro-step: call run(), or leave it off to accumulate gradients";
  CHECK_THROWS_WITH_AS(run.step.micro_step([&] { return run.loss(); }), message, ValueError);
  CHECK_THROWS_WITH_AS(run.step.prepare(0.1), message, ValueError);
  run.step.commit();
  CHECK(run.values() == before);
  CHECK(run.step.updates() == 0);
  run.update();
  CHECK(run.step.updates() == 1);
}

TEST_CASE("what fails before the first update is undone: the loss, its value, the rate") {
  Planned planned({});
  Run run({}), undisturbed(plain({}));
  auto before = run.values();
  int64_t live = planned.account->stats().live;
  auto failing = [&]() -> Tensor {
    run.loss();
    throw std::runtime_error("the user's own");
  };
  CHECK_THROWS_WITH(run.step.run(0.05, failing), "the user's own");
  CHECK_THROWS_AS(run.step.run(-1, [&] { return run.loss(); }), ValueError);
  float kept = run.images.data<float>()[7];
  run.images.data<float>()[7] = std::numeric_limits<float>::infinity();
  std::string message = error_text<ValueError>([&] { run.update(); });
  CHECK(
      contains(message, "at update 0; first seen in the forward pass of 'conv2d' in module conv1"));
  run.images.data<float>()[7] = kept;
  CHECK(run.values() == before);
  CHECK(run.step.updates() == 0);
  CHECK_FALSE(run.has_gradients());
  CHECK(planned.account->stats().live == live);
  CHECK(run.update() == undisturbed.update());
  CHECK(run.values() == undisturbed.values());
}

TEST_CASE("a gradient that is not finite: the first is undone, a later one tears the update") {
  Planned planned({});
  Run run({}), undisturbed(plain({}));
  int64_t live = planned.account->stats().live;
  std::string bad;
  for (const nn::NamedTensor& each : run.model->named_parameters())
    register_hook(each.tensor, [&bad, name = each.name](const Tensor& grad) {
      return name == bad ? full(grad.shape(), NAN) : Tensor();
    });
  auto before = run.values();

  bad = "fc.weight";  // backward begins there
  CHECK_THROWS_WITH_AS(
      run.update(), "sgd: the gradient of 'fc.weight' is not finite: it has an infinity or a NaN",
      ValueError);
  CHECK(run.values() == before);

  bad = "conv1.weight";  // and ends there
  std::string torn = error_text<TornUpdate>([&] { run.update(); });
  CHECK(torn ==
        "train step: update 0 failed after 8 of 8 parameters had changed, which cannot be undone: "
        "put "
        "parameters and the optimizer's state back from a checkpoint, then call set_updates(). The "
        "cause: sgd: the gradient of 'conv1.weight' is not finite: it has an infinity or a NaN");
  CHECK(run.values() != before);
  CHECK_FALSE(run.has_gradients());
  CHECK(planned.account->stats().live == live);
  CHECK(run.step.updates() == 0);
  CHECK(run.optimizer->steps() == 0);

  bad = "";
  CHECK(error_text<TornUpdate>([&] { run.update(); }) == torn);
  CHECK_THROWS_AS(run.step.begin(), TornUpdate);
  run.put_back(before);
  run.step.set_updates(0);
  CHECK(run.update() == undisturbed.update());
  CHECK(run.values() == undisturbed.values());
}

TEST_CASE("a refused request is undone before the first update, and told plainly after it") {
  for (const Case& c : {Case{"small", "adamw"}, Case{"deep", "sgd"}, Case{"few pixels", "sgd"}}) {
    CAPTURE(c.name());
    Run undisturbed(plain(c));
    Planned planned(c);
    Run run(c);
    int64_t live = planned.account->stats().live, undone = 0, torn = 0;
    for (int64_t n = 1;; ++n) {
      CAPTURE(n);
      auto before = run.values();
      bool failed = true;
      planned.account->fail_nth(n);
      try {
        run.update();
        failed = false;
      } catch (const memory::OutOfMemory&) {
        ++undone;
      } catch (const TornUpdate& error) {
        CHECK_THROWS_AS(std::rethrow_if_nested(error), memory::OutOfMemory);
        ++torn;
      }
      planned.account->fail_nth(0);
      REQUIRE(planned.account->stats().live == live);
      REQUIRE(!run.has_gradients());
      if (torn == 0 && failed) REQUIRE(run.values() == before);
      if (torn > 0 && failed) {
        run.put_back(before);
        run.step.set_updates(undisturbed.step.updates());
      }
      if (failed) run.update();
      undisturbed.update();
      REQUIRE(run.values() == undisturbed.values());
      if (!failed) break;
    }
    CHECK(undone > 10);
    CHECK(torn > 5);
  }
}
