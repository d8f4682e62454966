// An update that overflows is skipped: nothing of the training changes, the scale backs off, and
// the module and op where it began are named; at the floor it is an error. Everything else goes on
// as without.
#include <doctest/doctest.h>

#include <cmath>

#include "brim/memory/arena_planner.h"
#include "brim/nn/models/registry.h"
#include "brim/ops/cross_entropy.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/instrumented.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/checkpoint.h"
#include "brim/train/rehearsed_plan.h"
#include "brim/train/train_step.h"

using namespace brim;
using namespace brim::testing;

namespace {

struct Run {
  explicit Run(std::unique_ptr<nn::Module> from, const optim::LossScalerOptions& scaling = {},
               TrainStepOptions options = {.precision = Dtype::float16})
      : model(std::move(from)), sgd(model->named_parameters(), {.momentum = 0.9}), scaler(scaling) {
    options.seed = 5;
    options.scaler = &scaler;
    step.emplace(*model, sgd, options);
  }

  Tensor loss(const Problem& problem) const {
    return cross_entropy((*model)(problem.images), problem.labels);
  }
  double update(const Problem& problem) {
    return step->run(0.05, [&] { return loss(problem); });
  }
  std::vector<float> state() const {
    auto all = values_of(model->named_parameters());
    for (const auto& more : {values_of(model->named_buffers()), values_of(sgd.named_state())})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  const Skipped* skipped() const { return std::get_if<Skipped>(&step->outcome()); }

  std::unique_ptr<nn::Module> model;
  optim::Sgd sgd;
  optim::LossScaler scaler;
  std::optional<TrainStep> step;
};

std::unique_ptr<nn::Module> resnet18() { return nn::make_model("resnet18", {.classes = 10}); }

bool is_cast(const autograd::OpEvent& event) { return std::string_view(event.op.name()) == "cast"; }

/// Writes gradients as large as float16 has, of both signs, into what backward gives to a module.
class Planter final : public autograd::OpObserver {
 public:
  explicit Planter(std::string module) : module_(std::move(module)) {}
  void ran(const autograd::OpEvent& event) override {
    if (event.phase == autograd::Phase::forward) at_ = 0;
    if (event.phase != autograd::Phase::backward || is_cast(event)) return;
    if (!before_ && event.module == module_) before_ = at_ - 1;
    if (before_ == at_) overwrite(event.outputs[0]);
    ++at_;
  }

 private:
  static void overwrite(const Tensor& gradient) {
    auto* values = gradient.data<Float16>();
    for (int64_t i = 0; i < gradient.numel(); ++i) values[i] = Float16(i % 3 == 0 ? -5e4f : 5e4f);
  }

  std::string module_;
  int at_ = 0;
  std::optional<int> before_;  // the module's first in backward; found in a run without a plant
};

}  // namespace

TEST_CASE("overflows planted in modules are named, and leave parameters as they were") {
  const char* modules[] = {"conv1",          "bn1",
                           "layer1.0.conv1", "layer1.1.bn1",
                           "layer2.1.conv2", "layer2.0.downsample.0",
                           "layer3.0.bn2",   "layer3.1.conv1",
                           "layer4.1.conv2", "layer4.0.bn1"};
  const Problem problem = random_problem(4, 32, 10);
  Run run(resnet18(), {.initial = 128});
  run.update(problem);
  REQUIRE(run.skipped() == nullptr);
  int right = 0;
  for (const std::string module : modules) {
    if (is_instrumented() && module != "layer2.1.conv2" && module != "bn1") continue;
    CAPTURE(module);
    auto check_skipped = [&](const char* op, autograd::Phase phase) {
      const auto before = run.state();
      const double scale = run.scaler.scale();
      const int64_t attempts = run.step->attempts(), updates = run.step->updates();
      run.update(problem);
      CHECK(run.state() == before);
      CHECK(run.step->updates() == updates);
      CHECK(run.step->attempts() == attempts + 1);
      CHECK(run.scaler.scale() == scale / 2);
      const Skipped* skipped = run.skipped();
      REQUIRE(skipped != nullptr);
      CHECK(skipped->first_overflow_module == module);
      CHECK(skipped->op == op);
      CHECK(skipped->phase == phase);
      CHECK(skipped->step == attempts);
      CHECK(skipped->scale == scale);
      CHECK(contains(skipped->text, "in module " + module));
      right += skipped->first_overflow_module == module && skipped->op == op ? 1 : 0;
      run.scaler.set_state({.scale = 128});
    };
    const bool normalizes = module.find("bn") != std::string::npos;
    const char* op = normalizes ? "batch_norm" : "conv2d";
    const Tensor weight = run.model->tensor(module + ".weight");
    const Tensor own = clone(weight);
    // Finite as a half, or in float32, but not what comes of it.
    fill(weight, normalizes ? 1e6 : 6e4);
    check_skipped(op, autograd::Phase::forward);
    copy_into(weight, own);
    if (normalizes) fill(weight, 100);
    Planter planter(module);
    run.step->begin();  // finds the place
    run.step->micro_step([&] { return run.loss(problem); });
    run.step->undo();
    check_skipped(op, autograd::Phase::backward);
    copy_into(weight, own);
  }
  // In the last layer's backward: a gradient that is too large for a half as it comes.
  optim::LossScaler large = optim::LossScaler::fixed(0x1p60);
  TrainStep step(*run.model, run.sgd, {.precision = Dtype::float16, .scaler = &large});
  const auto before = run.state();
  step.run(0.05, [&] { return run.loss(problem); });
  const auto* skipped = std::get_if<Skipped>(&step.outcome());
  REQUIRE(skipped != nullptr);
  CHECK(skipped->first_overflow_module == "");  // the loss is outside of all modules
  CHECK(skipped->op == "cast");
  CHECK(skipped->phase == autograd::Phase::backward);
  CHECK(run.state() == before);
  CHECK(right == (is_instrumented() ? 4 : 20));
}

TEST_CASE("at the floor an overflow is an error that names the module") {
  const Problem problem = random_problem(8, 8, 4);
  Run run(std::make_unique<SmallNet>(), {.initial = 4, .floor = 1});
  fill(run.model->tensor("bn2.weight"), 1e6);
  const auto before = run.state();
  run.update(problem);
  run.update(problem);
  CHECK(run.scaler.scale() == 1);
  const std::string text = error_text<ValueError>([&] { run.update(problem); });
  CHECK(contains(text, "train step: update 2 overflows at every scale of the loss, down to 1; "));
  CHECK(contains(text, "'batch_norm' in module bn2"));
  CHECK(run.state() == before);
  CHECK(run.step->skipped() == 2);
  fill(run.model->tensor("bn2.weight"), 1);
  run.update(problem);
  CHECK(run.step->updates() == 1);
}

TEST_CASE("one decision for all parts of an update") {
  Dtype gradients = Dtype::float32;
  SUBCASE("with gradients in float32") {}
  SUBCASE("with gradients in bfloat16") { gradients = Dtype::bfloat16; }
  const Problem problem = random_problem(8, 8, 4);
  Run run(std::make_unique<SmallNet>(/*dropout=*/0), {.initial = 1024},
          {.precision = Dtype::float16, .gradients = gradients});
  int ran = 0;
  auto part = [&](bool overflows) {
    return run.step->micro_step(
        [&, overflows] {
          ++ran;
          Problem bad = problem;
          if (overflows) bad.images = full(problem.images.shape(), 1e30);
          return run.loss(bad);
        },
        {.weight = 1.0 / 3});
  };
  const auto before = run.state();
  for (int bad = 0; bad < 3; ++bad) {
    CAPTURE(bad);
    run.step->begin();
    ran = 0;
    for (int i = 0; i < 3; ++i) {
      CHECK(run.step->is_lost() == (i > bad));
      const double loss = part(i == bad);
      CHECK(std::isnan(loss) == (i >= bad));
    }
    CHECK(ran == bad + 2);  // the one that overflowed twice, those after it not at all
    const StepOutcome& outcome = run.step->prepare(0.05);
    run.step->commit();
    REQUIRE(std::holds_alternative<Skipped>(outcome));
    CHECK(std::get<Skipped>(outcome).first_overflow_module == "conv1");
    CHECK(run.state() == before);
  }
  CHECK(run.scaler.scale() == 128);
  CHECK(run.step->skipped() == 3);
  run.step->begin();
  for (int i = 0; i < 3; ++i) part(false);
  CHECK(std::holds_alternative<Applied>(run.step->prepare(0.05)));
  run.step->commit();
  CHECK(std::holds_alternative<Applied>(run.step->outcome()));
  CHECK(run.state() != before);
}

TEST_CASE("the part that overflowed runs again in the bytes that were planned for it") {
  Dtype gradients = Dtype::float32;
  SUBCASE("with gradients in float32") {}
  SUBCASE("with gradients in bfloat16") { gradients = Dtype::bfloat16; }
  // Of 4, 4 and 2 images, on the meta device and then for real.
  auto program = [gradients](Device device, int updates, int bad) {
    auto model = nn::make_model("resnet20", {.classes = 10, .device = device});
    optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
    optim::LossScaler scaler({.initial = 64});
    TrainStep step(*model, sgd,
                   {.precision = Dtype::float16, .gradients = gradients, .scaler = &scaler});
    for (int update = 0; update < updates; ++update) {
      step.begin();
      for (int part = 0; part < 3; ++part) {
        const int64_t images = part == 2 ? 2 : 4;
        const double value = part == bad && update == 1 ? 1e30 : 0.5;
        step.micro_step(
            [&] {
              Tensor labels = zeros({images}, {.dtype = Dtype::int64, .device = device});
              return cross_entropy((*model)(full({images, 8, 8, 3}, value, {.device = device})),
                                   labels);
            },
            {.weight = static_cast<double>(images) / 10, .samples = images});
      }
      step.prepare(0.01);
      step.commit();
    }
    return step.skipped();
  };
  const RehearsedPlan planned = plan_on_meta([&](const auto&) { program(Device::meta(), 2, -1); });
  for (int bad : {-1, 0, 1, 2}) {
    CAPTURE(bad);
    auto account = std::make_shared<memory::Account>(
        Device::cpu(), std::make_unique<memory::HostSource>(), memory::arena_planner(planned.plan));
    memory::AccountScope scope(account);
    CHECK(program(Device::cpu(), 3, bad) == (bad < 0 ? 0 : 1));
    CHECK(account->stats().mismatches == 0);
    CHECK(account->stats().peak_reserved == planned.predicted.peak_reserved);
  }
}

TEST_CASE("scales that are powers of two change no bit of what does not under- or overflow") {
  const Problem problem = random_problem(8, 8, 4);
  auto state_after = [&](double scale, double clip) {
    TrainStepOptions options;  // float32
    options.clip.norm = clip;
    Run run(std::make_unique<SmallNet>(), {.initial = scale, .growth_interval = 2}, options);
    for (int i = 0; i < 5; ++i) run.update(problem);
    CHECK(run.step->updates() == 5);
    CHECK(run.scaler.scale() == 4 * scale);
    return run.state();
  };
  for (double clip : {0.1, optim::ClipOptions::kNone}) {
    const auto expected = state_after(1, clip);
    CHECK(state_after(1024, clip) == expected);
    CHECK(state_after(65536, clip) == expected);
  }
}

TEST_CASE("a checkpoint keeps the scale and how many updates were skipped") {
  const Problem problem = random_problem(8, 8, 4);
  const TempFolder folder;
  const Checkpoints checkpoints(folder.path(), {});
  const optim::LossScalerOptions scaling{.initial = 512, .growth_interval = 4};
  Run first(std::make_unique<SmallNet>(), scaling);
  for (int i = 0; i < 3; ++i) first.update(problem);
  Problem bad = problem;
  bad.images = full(problem.images.shape(), 1e30);
  first.update(bad);
  first.update(problem);
  CHECK(first.scaler.state() == optim::LossScalerState{.scale = 256, .finite_in_a_row = 1});
  checkpoints.save({*first.model, first.sgd, *first.step}, {});

  Run second(std::make_unique<SmallNet>(), scaling);
  const auto found = checkpoints.load_newest({*second.model, second.sgd, *second.step}).checkpoint;
  REQUIRE(found.has_value());
  CHECK(found->updates == 4);
  CHECK(found->skipped == 1);
  CHECK(second.scaler.state() == first.scaler.state());
  CHECK(second.step->attempts() == 5);
  for (int i = 0; i < 4; ++i) CHECK(first.update(problem) == second.update(problem));
  CHECK(first.state() == second.state());
  CHECK(second.scaler.scale() == 512);

  auto refused = [&](Run& run) {
    const auto before = run.state();
    const std::string text = error_text<FileError>([&] {
      checkpoints.load_newest({*run.model, run.sgd, *run.step});
    });
    CHECK(run.state() == before);
    return text;
  };
  Run higher(std::make_unique<SmallNet>(), {.initial = 1024, .floor = 512});
  CHECK(contains(refused(higher), "is of another training, whose loss scaler: expected a scale"));
  Run without(std::make_unique<SmallNet>());
  without.step.emplace(*without.model, without.sgd);
  CHECK(contains(refused(without), "is of another training: it has a loss scale"));
}

TEST_CASE("what makes no sense is refused") {
  CHECK_THROWS_WITH_AS(optim::LossScaler({.initial = 0.5}),
                       "loss scaler: expected an initial scale from the floor to float32's largest "
                       "number, got 0.5",
                       ValueError);
  CHECK_THROWS_AS(optim::LossScaler({.initial = std::nan("")}), ValueError);
  CHECK_THROWS_AS(optim::LossScaler({.growth = 0.5}), ValueError);
  CHECK_THROWS_AS(optim::LossScaler({.backoff = 0}), ValueError);
  CHECK_THROWS_AS(optim::LossScaler({.growth_interval = 0}), ValueError);
  CHECK_THROWS_AS(optim::LossScaler({.floor = 0}), ValueError);
  optim::LossScaler scaler({.growth_interval = 10});
  CHECK_THROWS_AS(scaler.set_state({.scale = 0.5}), ValueError);
  CHECK_THROWS_AS(scaler.set_state({.scale = 1, .finite_in_a_row = 10}), ValueError);
  CHECK_THROWS_AS(scaler.set_state({.scale = 1, .finite_in_a_row = -1}), ValueError);
  CHECK(scaler.scale() == 65536);

  SmallNet net;
  optim::Sgd sgd(net.named_parameters(), {});
  CHECK_THROWS_AS(TrainStep(net, sgd, {.fused_update = true, .scaler = &scaler}), ValueError);
}
