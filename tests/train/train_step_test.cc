#include "brim/train/train_step.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "brim/memory/out_of_memory.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/mul.h"
#include "brim/ops/sqrt.h"
#include "brim/optim/sgd.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/step_memory.h"

using namespace brim;
using namespace brim::testing;

namespace {

const optim::SgdOptions kSgd{.momentum = 0.9, .weight_decay = 1e-4};

// A model in training, with all that a step may change.
struct Run {
  explicit Run(std::unique_ptr<nn::Module> from, const optim::ClipOptions& clip = {})
      : model(std::move(from)),
        sgd(model->named_parameters(), kSgd),
        step(*model, sgd, {.seed = 5, .clip = clip}) {}

  double update(const Problem& problem) {
    return step.run(0.05, [&] { return cross_entropy((*model)(problem.images), problem.labels); });
  }
  std::vector<float> state() const {
    auto all = values_of(model->named_parameters());
    for (const auto& more : {values_of(model->named_buffers()), values_of(sgd.named_state())})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::unique_ptr<nn::Module> model;
  optim::Sgd sgd;
  TrainStep step;
};

int64_t live(const memory::Account& account) { return account.stats().live; }

}  // namespace

TEST_CASE("a step changes parameters, statistics and momentum, and leaves no bytes behind") {
  Problem problem = random_problem(8, 8, 4);
  Run run(std::make_unique<SmallNet>());
  auto account = memory::account(Device::cpu());
  int64_t before = live(*account);
  auto state = run.state();
  double first = run.update(problem), last = 0;
  CHECK(run.state() != state);
  CHECK(run.step.updates() == 1);
  CHECK(live(*account) == before);
  for (int i = 0; i < 60; ++i) last = run.update(problem);
  CHECK(last < first / 2);
}

TEST_CASE("calls out of order change nothing") {
  Problem problem = random_problem(4, 8, 4);
  Run run(std::make_unique<SmallNet>());
  auto state = run.state();
  auto loss = [&] { return cross_entropy((*run.model)(problem.images), problem.labels); };
  auto failing = [&]() -> Tensor {
    loss();
    throw std::runtime_error("once");
  };
  const char* message =
      "train step: no update is under way: call begin() first, also after a failure";
  CHECK_THROWS_WITH_AS(run.step.micro_step(loss), message, ValueError);
  CHECK_THROWS_WITH_AS(run.step.prepare(0.1), message, ValueError);
  run.step.commit();

  run.step.begin();
  run.step.micro_step(loss, {.weight = 0.5});
  run.step.commit();  // not prepared
  run.step.prepare(0.1);
  run.step.micro_step(loss, {.weight = 0.5});
  run.step.commit();  // no longer prepared: nobody checked the second part's gradients
  CHECK(run.state() == state);
  CHECK_THROWS(run.step.micro_step(failing, {.weight = 0.5}));
  // The part alone, run again, would be half an update.
  CHECK_THROWS_WITH_AS(run.step.micro_step(loss, {.weight = 0.5}), message, ValueError);
  CHECK_THROWS_WITH_AS(run.step.prepare(0.1), message, ValueError);
  run.step.commit();
  CHECK(run.state() == state);
  CHECK(run.step.updates() == 0);

  run.step.run(0.1, loss);
  CHECK(run.step.updates() == 1);
  state = run.state();
  run.step.commit();  // once is enough
  CHECK(run.state() == state);
  CHECK(run.step.updates() == 1);
}

TEST_CASE("an error in the loss function undoes the step") {
  Problem problem = random_problem(4, 8, 4);
  Run run(std::make_unique<SmallNet>());
  auto state = run.state();
  int64_t before = live(*memory::account(Device::cpu()));
  auto throwing = [&]() -> Tensor {
    Tensor logits = (*run.model)(problem.images);
    throw std::runtime_error("the user's own");
  };
  CHECK_THROWS_WITH(run.step.run(0.1, throwing), "the user's own");
  CHECK(run.state() == state);
  CHECK(run.step.updates() == 0);
  CHECK(live(*memory::account(Device::cpu())) == before);
}

TEST_CASE("a loss that is not finite is caught before commit and traced to its module and op") {
  Problem problem = random_problem(4, 8, 4);
  Run run(std::make_unique<SmallNet>());
  auto state = run.state();
  problem.images.data<float>()[5] = std::numeric_limits<float>::infinity();
  std::string message;
  try {
    run.update(problem);
  } catch (const ValueError& error) {
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find("at update 0; first seen in the forward pass of 'conv2d' in module conv1 "
                     "(small_net.h:") != std::string::npos);
  CHECK(message.find("its inputs already were not finite") != std::string::npos);
  CHECK(run.state() == state);
}

TEST_CASE("a weight that is NaN is traced to the op that first meets it") {
  Problem problem = random_problem(4, 8, 4);
  Run run(std::make_unique<SmallNet>());
  run.model->tensor("conv2.weight").data<float>()[0] = std::nanf("");
  std::string message;
  try {
    run.update(problem);
  } catch (const ValueError& error) {
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find("'conv2d' in module conv2") != std::string::npos);
}

TEST_CASE("micro-steps add up to the update of the whole batch, dropout masks included") {
  // Without batch norm, whose statistics are those of each part.
  struct Plain final : nn::Module {
    nn::Conv2d conv{3, 8, {.kernel = 3}};
    nn::Dropout drop{0.5};
    nn::Linear fc{8, 4};
    Plain() {
      register_modules({{"conv", conv}, {"drop", drop}, {"fc", fc}});
      nn::initialize(*this, 1);
    }
    Tensor forward(Tensor x) override { return fc(drop(global_avg_pool(conv(std::move(x))))); }
  };
  Problem problem = random_problem(6, 8, 4);
  Run whole(std::make_unique<Plain>()), parts(std::make_unique<Plain>());
  whole.update(problem);
  parts.step.begin();
  for (int64_t first : {0, 4}) {
    int64_t count = first == 0 ? 4 : 2;
    auto slice = [&](const Tensor& t) {
      Layout layout = t.layout();
      layout.offset = first * layout.strides[0];
      layout.shape[0] = count;
      return Tensor(t.storage(), layout);
    };
    parts.step.micro_step(
        [&] { return cross_entropy((*parts.model)(slice(problem.images)), slice(problem.labels)); },
        {.weight = static_cast<double>(count) / 6, .first_sample = static_cast<uint64_t>(first)});
  }
  parts.step.prepare(0.05);
  parts.step.commit();
  auto a = whole.state(), b = parts.state();
  REQUIRE(a.size() == b.size());
  // No gradient here exceeds 1 (images in [-1, 1], weights below 1, a mean over the batch), and one
  // of its elements sums 6 samples x 36 pixels, in another order here and there. Each order errs by
  // about sqrt(216) roundings of 2^-24, as they err both ways: 15, and one more where the parts
  // meet. Parts weighed wrongly would differ by a hundredth.
  for (size_t i = 0; i < a.size(); ++i) REQUIRE(std::abs(a[i] - b[i]) <= 16 * 0x1.0p-24f);
}

TEST_CASE("an update is clipped by the norm of its micro-steps together") {
  Problem problem = random_problem(4, 8, 4);
  auto moved = [&](const optim::ClipOptions& clip) {
    Run run(std::make_unique<SmallNet>(/*dropout=*/0), clip);
    std::vector<float> before = values_of(run.model->named_parameters());
    run.step.begin();
    for (int part = 0; part < 2; ++part)
      run.step.micro_step(
          [&] { return cross_entropy((*run.model)(problem.images), problem.labels); },
          {.weight = 0.5});
    run.step.prepare(1);
    double norm = run.sgd.gradient_norm().value();
    run.step.commit();
    std::vector<float> after = values_of(run.model->named_parameters());
    double squares = 0;
    for (size_t i = 0; i < after.size(); ++i) squares += std::pow(after[i] - before[i], 2);
    return std::pair(norm, std::sqrt(squares));
  };
  auto [norm, free] = moved({});
  auto [same, limited] = moved({.norm = norm / 8});
  CHECK(same == norm);
  // Weight decay, 1e-4 of weights whose norm is below 10, comes after clipping.
  CHECK(std::abs(free - norm) < 1e-3);
  CHECK(std::abs(limited - norm / 8) < 1e-3);
  CHECK(norm > 0.1);
}

namespace {

/// The square root of 0 times x: its slope is infinite there.
struct RootNet final : nn::Module {
  RootNet() {
    register_modules({{"first", first}, {"last", last}});
    nn::initialize(*this, /*seed=*/1);
  }
  Tensor forward(Tensor x) override { return last(sqrt(mul(first(std::move(x)), zero))); }
  nn::Linear first{4, 8}, last{8, 4};
  Tensor zero = zeros({1});
};

}  // namespace

TEST_CASE("a gradient that is not finite is traced to its module and op, and nothing has changed") {
  RootNet model;
  optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
  TrainStep step(model, sgd);
  const Tensor images = uniform({6, 4}, -1, 1, RandomKey{2});
  const Tensor labels = zeros({6}, {.dtype = Dtype::int64});
  const auto loss = [&] { return cross_entropy(model(images), labels); };
  const auto before = values_of(model.named_parameters());
  std::string message;
  try {
    step.run(0.1, loss);
  } catch (const ValueError& error) {
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find("train step: at update 0 the gradient of 'first.") != message.npos);
  CHECK(message.find("first seen in the backward pass of 'sqrt' in module (the root)") !=
        message.npos);
  CHECK(values_of(model.named_parameters()) == before);
  CHECK(step.updates() == 0);
  for (const nn::NamedTensor& parameter : model.named_parameters())
    CHECK_FALSE(parameter.tensor.grad().defined());
  // In several parts nobody looks at each.
  step.begin();
  for (double weight : {0.5, 0.5}) step.micro_step(loss, {.weight = weight});
  CHECK_THROWS_WITH_AS(step.prepare(0.1), doctest::Contains("at update 0 the gradient of 'first."),
                       ValueError);
  CHECK(values_of(model.named_parameters()) == before);
}

TEST_CASE("two micro-steps that fail at any allocation are undone, and repeat bit for bit") {
  Problem problem = random_problem(4, 8, 4);
  auto update = [](Run& run, const Problem& data) {
    run.step.begin();
    double loss = 0;
    for (uint64_t first : {0, 4})
      loss +=
          run.step.micro_step([&] { return cross_entropy((*run.model)(data.images), data.labels); },
                              {.weight = 0.5, .first_sample = first});
    run.step.prepare(0.05);
    run.step.commit();
    return loss;
  };
  Run undisturbed(std::make_unique<SmallNet>());
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  Run disturbed(std::make_unique<SmallNet>());
  Problem local{clone(problem.images), clone(problem.labels)};
  int64_t before = live(*account);
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    account->fail_nth(n);
    bool failed = false;
    double loss = 0;
    try {
      loss = update(disturbed, local);
    } catch (const memory::OutOfMemory&) {
      failed = true;
    }
    account->fail_nth(0);
    REQUIRE(live(*account) == before);
    if (failed) loss = update(disturbed, local);
    REQUIRE(loss == update(undisturbed, problem));
    REQUIRE(disturbed.state() == undisturbed.state());
    if (failed) continue;
    CHECK(n > 40);  // the faults reached the second part
    break;
  }
}

TEST_CASE("the planner is told where steps begin and end, however they end") {
  struct Listener final : memory::Planner {
    Listener(memory::Source& source, std::string& heard) : Planner(source), heard(heard) {}
    std::string_view name() const override { return "listener"; }
    memory::Placement place(const memory::Request& request) override {
      return {source().allocate(request.bytes), reinterpret_cast<void*>(request.bytes)};
    }
    void release(const memory::Placement& given) noexcept override {
      source().deallocate(given.address, reinterpret_cast<intptr_t>(given.token));
    }
    void begin_step() override { heard += "("; }
    void end_step() noexcept override { heard += ")"; }
    std::string& heard;
  };
  std::string heard;
  auto account = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::HostSource>(),
      [&](memory::Source& source) { return std::make_unique<Listener>(source, heard); });
  memory::AccountScope scope(account);
  Problem problem = random_problem(4, 8, 4);
  Run run(std::make_unique<SmallNet>());
  run.update(problem);
  CHECK(heard == "()");
  CHECK_THROWS(run.step.run(0.1, []() -> Tensor { throw std::runtime_error("no"); }));
  CHECK(heard == "()()");
  run.step.begin();
  run.step.begin();  // the first one is given up
  CHECK(heard == "()()()(");
  run.step.undo();
  run.step.undo();
  CHECK(heard == "()()()()");
}

TEST_CASE("a thousand steps move neither live nor reserved bytes") {
  auto account = memory::capped_host_account("caching");
  memory::AccountScope scope(account);
  Problem problem = random_problem(4, 8, 4);
  Run run(std::make_unique<SmallNet>());
  run.update(problem);
  run.update(problem);
  auto before = account->stats();
  for (int i = 0; i < 1000; ++i) run.update(problem);
  CHECK(account->stats().live == before.live);
  CHECK(account->stats().reserved == before.reserved);
  CHECK(account->stats().peak_live == before.peak_live);
}

TEST_CASE("what the meta device predicts is what the step holds, to the byte") {
  for (const char* planner : {"direct", "caching"}) {
    CAPTURE(planner);
    auto train = [&](Device device) {
      auto model = nn::make_model("resnet20", {.classes = 10, .seed = {}, .device = device});
      if (device.is_cpu()) nn::initialize(*model, 1);
      optim::Sgd sgd(model->named_parameters(), kSgd);
      TrainStep step(*model, sgd);
      Tensor images = zeros({4, 32, 32, 3}, {.device = device});
      Tensor labels = zeros({4}, {.dtype = Dtype::int64, .device = device});
      for (int i = 0; i < 2; ++i)
        step.run(0.1, [&] { return cross_entropy((*model)(images), labels); });
    };
    StepMemory predicted = measure_on_meta(memory::planner_named(planner),
                                           [&](const auto&) { train(Device::meta()); });
    auto account = memory::capped_host_account(planner);
    memory::AccountScope scope(account);
    train(Device::cpu());
    CHECK(account->stats().peak_live == predicted.peak_live);
    CHECK(account->stats().peak_reserved == predicted.peak_reserved);
    CHECK(predicted.peak_live > 0);
  }
}

TEST_CASE("a loss that is no scalar is refused") {
  Problem problem = random_problem(4, 8, 4);
  Run run(std::make_unique<SmallNet>());
  CHECK_THROWS_AS(run.step.run(0.1, [&] { return (*run.model)(problem.images); }), ShapeError);
  CHECK_THROWS_AS(
      run.step.run(-0.1,
                   [&] { return cross_entropy((*run.model)(problem.images), problem.labels); }),
      ValueError);
}
