// Updates that are recorded have the bits of those that are not, whatever changes from one to the
// next: rates, averages, masks, the scale of the loss. What cannot be recorded runs as it is, and
// says why. As lists of calls on the CPU, as CUDA graphs on a GPU or an emulated one; where there
// is neither of these, it says so.
#include "brim/train/step_graph.h"

#include <doctest/doctest.h>

#include <map>

#include "brim/autograd/offload.h"
#include "brim/base/cuda/devices.h"
#include "brim/base/parallel.h"
#include "brim/memory/pinned_source.h"
#include "brim/tests/support/cuda_libraries.h"
#include "brim/tests/support/cuda_skip.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/planned_training.h"
#include "brim/tests/train/small_net.h"

using namespace brim;
using namespace brim::testing;

namespace {

bool skipped(const char* what) { return use_plain_cuda_libraries(), skipped_on_cuda(what); }

/// The CPU, and the GPU where there is one.
std::vector<Device> devices(const char* what) {
  if (skipped(what)) return {Device::cpu()};
  return {Device::cpu(), Device::cuda()};
}

/// Gives the lowest bytes of a region that are free: what is planned anew begins where it was.
class LowSource final : public memory::Source {
 public:
  LowSource(std::unique_ptr<memory::Source> region, int64_t bytes)
      : Source(bytes), region_(std::move(region)), base_(region_->allocate(bytes)) {}
  ~LowSource() override { region_->deallocate(base_, capacity_of_region()); }
  void copy_to_host(void* to, const void* from, int64_t bytes) override {
    region_->copy_to_host(to, from, bytes);
  }
  void copy_from_host(void* to, const void* from, int64_t bytes) override {
    region_->copy_from_host(to, from, bytes);
  }

 private:
  int64_t capacity_of_region() const { return region_->used(); }
  void* take(int64_t bytes) override {
    int64_t at = 0;
    for (const auto& [begin, size] : taken_) {
      if (at + bytes <= begin) break;
      at = begin + size;
    }
    if (at + bytes > capacity_of_region()) return nullptr;
    taken_[at] = bytes;
    return static_cast<char*>(base_) + at;
  }
  void give_back(void* address, int64_t) noexcept override {
    taken_.erase(static_cast<char*>(address) - static_cast<char*>(base_));
  }

  std::unique_ptr<memory::Source> region_;
  void* base_;
  std::map<int64_t, int64_t> taken_;  // by begin
};

struct Run {
  bool graph = true;
  std::string optimizer = "sgd", planner = "arena";
  int64_t micro_batch = 4, steps = 7;
  Dtype precision = Dtype::float32;
  double scale = 0, rate = 0.05;
  RecomputeOptions recompute = {};
  MixOptions mix = {};
  Device device = Device::cpu();
  bool loses_memory = false;  ///< after the third update
  bool loses_thread = false;  ///< after the fourth
  bool fused = false;
};

struct Outcome {
  std::vector<double> losses, norms;
  std::vector<float> values;
  std::vector<int64_t> skipped;
  std::string error;
  int64_t replays = 0, mismatches = 0, updates = 0;
  std::string why_not;
  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.losses == b.losses && a.norms == b.norms && a.values == b.values &&
           a.skipped == b.skipped && a.error == b.error && a.updates == b.updates;
  }
};

Outcome train(const Run& run) {
  constexpr int64_t kRegion = 64 << 20;
  auto account = std::make_shared<memory::Account>(
      run.device, std::make_unique<LowSource>(source_of({.device = run.device}, kRegion), kRegion),
      memory::planner_named("direct"));
  const memory::AccountScope scope(account);
  const auto made = nn::make<SmallNet>({.device = run.device});
  Updating updating = make_updating({.optimizer = run.optimizer}, *made);
  optim::Ema ema(*made, {.decay = 0.9, .warmup = true});
  // An epoch ends with a smaller update.
  RandomBatches batches({.images = 6, .batches = 3, .last_images = 5, .size = 6});
  TrainerOptions options{.steps = run.steps,
                         .schedule = optim::CosineSchedule{.rate = run.rate, .steps = 7},
                         .mix = run.mix,
                         .input = {.device = run.device},
                         .ema = &ema,
                         .micro_batch = run.micro_batch,
                         .planner = run.planner,
                         .fused_update = run.fused,
                         .precision = run.precision,
                         .recompute = run.recompute,
                         .graph = run.graph};
  (run.fused ? options.clip.value : options.clip.norm) = 0.5;
  optim::LossScaler scaler({.initial = run.scale > 0 ? run.scale : 1, .growth_interval = 3});
  if (run.scale > 0) options.scaler = &scaler;
  Trainer trainer(*made, *updating.optimizer, {batches, nullptr}, options);
  Outcome outcome;
  trainer.on_step = [&](const StepReport& report) {
    outcome.losses.push_back(report.skipped ? 0 : report.loss);
    outcome.norms.push_back(report.gradient_norm.value_or(0));
    if (report.skipped) outcome.skipped.push_back(report.step);
    if (run.loses_thread && report.step == 4) set_num_threads(2);
    if (run.loses_memory && report.step == 3) account->set_cap(account->stats().reserved - 4096);
  };
  try {
    trainer.run();
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  outcome.values = values_of(made->named_parameters());
  for (float value : values_of(made->named_buffers())) outcome.values.push_back(value);
  for (float value : values_of(ema.named_state())) outcome.values.push_back(value);
  for (float value : values_of(updating.optimizer->named_state())) outcome.values.push_back(value);
  outcome.replays = trainer.graph_updates();
  outcome.why_not = trainer.why_no_graph();
  outcome.updates = ema.updates();
  outcome.mismatches = account->stats().mismatches;
  return outcome;
}

Outcome without_graph(Run run) {
  run.graph = false;
  return train(run);
}

}  // namespace

TEST_CASE("an update from a graph has the same bits") {
  for (const Device device : devices("graphs of updates"))
    for (const auto& [optimizer, micro_batch] :
         {std::pair("sgd", 6), {"sgd", 4}, {"adamw", 6}, {"adamw", 4}}) {
      CAPTURE(to_string(device));
      CAPTURE(optimizer);
      CAPTURE(micro_batch);
      const Run run{.optimizer = optimizer, .micro_batch = micro_batch, .device = device};
      const Outcome graph = train(run);
      CHECK(graph.why_not == "");
      // Two kinds of updates, the first of each as it is.
      CHECK(graph.replays == run.steps - 2);
      CHECK(graph.losses.size() == 7);
      CHECK(graph.mismatches == 0);
      CHECK(graph == without_graph(run));
    }
}

TEST_CASE("an update from a graph has the same bits in halves, recomputed or fused") {
  for (const Device device : devices("graphs of updates"))
    for (Run run :
         {Run{.precision = Dtype::bfloat16}, Run{.recompute = free_recomputation()},
          Run{.recompute = segmented_recomputation(2, 5)}, Run{.micro_batch = 6, .fused = true},
          Run{.optimizer = "adamw",
          .micro_batch = 6,
          .precision = Dtype::bfloat16,
          .recompute = free_recomputation(),
          .fused = true}}) {
      run.device = device;
      const Outcome graph = train(run);
      CHECK(graph.why_not == "");
      CHECK(graph.replays == run.steps - 2);
      CHECK(graph.mismatches == 0);
      CHECK(graph == without_graph(run));
    }
}

// The scale grows every third update until one overflows.
TEST_CASE("an update from a graph that overflows is skipped, as without") {
  for (const Device device : devices("graphs of updates that overflow"))
    for (double scale : {0x1p17, 0x1p12}) {
      const Run run{.steps = 12, .precision = Dtype::float16, .scale = scale, .device = device};
      const Outcome graph = train(run);
      CAPTURE(to_string(device));
      CAPTURE(scale);
      CHECK(graph.skipped.empty() == (scale < 0x1p15));
      CHECK(graph.replays + static_cast<int64_t>(graph.skipped.size()) >= run.steps - 2);
      CHECK(graph.replays > 5);
      CHECK(graph.mismatches == 0);
      CHECK(graph == without_graph(run));
    }
}

TEST_CASE("what was recorded is forgotten where memory is planned anew") {
  for (const Device device : devices("graphs of updates that are planned anew")) {
    const Run run{.micro_batch = 6, .steps = 12, .device = device, .loses_memory = true};
    const Outcome graph = train(run);
    CHECK(graph.why_not == "");
    CHECK(graph.replays == run.steps - 3);  // whole ones are first of their kind twice
    CHECK(graph == without_graph(run));
    const Outcome whole = train({.micro_batch = 6, .steps = 12, .device = device});
    CHECK(graph.losses != whole.losses);  // in smaller parts
  }
}

TEST_CASE("what was recorded is not started with other threads") {
  const int before = num_threads();
  const Run run{.micro_batch = 6, .steps = 12, .loses_thread = true};
  set_num_threads(3);
  const Outcome graph = train(run);
  set_num_threads(3);
  CHECK(graph == without_graph(run));
  set_num_threads(before);
  // It is recorded anew, or where kernels want other scratch for them runs as it is.
  CHECK(graph.why_not.find("recorded with") == std::string::npos);
  CHECK(graph.replays < train({.micro_batch = 6, .steps = 12}).replays);
}

TEST_CASE("without pinned memory for its batch an update runs as it is") {
  if (skipped("graphs of updates without pinned memory")) return;
  auto host = std::make_shared<memory::Account>(
      Device::cpu(), std::make_unique<memory::PinnedSource>(Device::cuda(), 4096),
      memory::planner_named("direct"));
  const Run run{.steps = 3, .device = Device::cuda()};
  const Outcome plain = without_graph(run);
  {
    const autograd::OffloadHostScope scope(host);
    host->set_cap(128);
    const Outcome graph = train(run);
    CHECK(graph.replays == 0);
    CHECK(graph.why_not.find("asked cpu for 384 B (384 bytes) of input") != std::string::npos);
    CHECK(graph == plain);
  }
  CHECK(host->stats().live == 0);
}

TEST_CASE("a loss from a graph that is not finite is explained, as without") {
  for (const Device device : devices("graphs of updates that fail")) {
    const Run run{.rate = 1e30, .device = device};
    const Outcome graph = train(run);
    CHECK(graph.error.find("the loss became") != std::string::npos);
    CAPTURE(graph.error);
    // Where the kernels of a device first overflow.
    const char* where = device.is_cpu() ? "in module bn1" : "in module conv2";
    CHECK(graph.error.find(where) != std::string::npos);
    CHECK(graph == without_graph(run));
  }
}

TEST_CASE("what cannot be recorded runs as it is, and says why") {
  struct {
    Run run;
    const char* why;
  } const cases[] = {
      {{.planner = "caching"}, "the caching planner promises no addresses, as the arena does"},
      {{.mix = {.mixup = 0.2}}, "mixup and CutMix are drawn by the host"},
  };
  for (const Device device : devices("what cannot be recorded"))
    for (auto [run, why] : cases) {
      run.device = device;
      const Outcome outcome = train(run);
      CHECK(outcome.why_not == why);
      CHECK(outcome.replays == 0);
      CHECK(outcome.losses.size() == 7);
      CHECK(outcome == without_graph(run));
    }
}

namespace {

/// Trains a step of its own loss under the plan of that step, by `run_update`.
struct Looped {
  std::vector<double> losses;
  int64_t replays = 0;
  std::string why_not;
};

using Before = std::function<void(int step, const Problem& problem)>;

Looped train_looped(Device real, const std::function<void(const Tensor& loss)>& look, int steps = 4,
                    const Before& before = {}) {
  auto make = [](Device device) { return nn::make<SmallNet>({.device = device}); };
  // On the CPU they are there before; to a GPU each update copies them.
  const Problem problem = random_problem(4, 6, 4);
  const Tensor empty_images = empty(problem.images.shape(), {.device = Device::meta()}),
               empty_labels =
                   empty(problem.labels.shape(), {.dtype = Dtype::int64, .device = Device::meta()});
  auto loss_of = [&](nn::Module& model, Device device) {
    if (real.is_cpu())
      return device.is_meta() ? cross_entropy(model(empty_images), empty_labels)
                              : cross_entropy(model(problem.images), problem.labels);
    return cross_entropy(model(convert_to(problem.images, {.device = device})),
                         convert_to(problem.labels, {.dtype = Dtype::int64, .device = device}));
  };
  RehearsalOptions rehearsal{
      .make_model = [&] { return make(Device::meta()); },
      .make_updating = [](nn::Module& model) { return make_updating({}, model); },
      .trainer = {.steps = 4, .graph = true},
      .batch = 4,
      .updates = 4};
  rehearsal.loss = [&](nn::Module& model, int64_t) { return loss_of(model, Device::meta()); };
  const StandInScope stand_in(stand_in_for(real));
  const RehearsedPlan plan =
      plan_on_meta([&](const std::function<void()>& held) { rehearse(rehearsal, held); });
  auto account = std::make_shared<memory::Account>(real, source_of({.device = real}, 64 << 20),
                                                   memory::arena_planner(plan.plan));
  memory::AccountScope scope(account);
  const auto model = make(real);
  Updating updating = make_updating({}, *model);
  TrainStep step(*model, *updating.optimizer, {.graph = true});
  StepGraph graph(step);
  Looped looped;
  for (int i = 0; i < steps; ++i) {
    if (before) before(i, problem);
    looped.losses.push_back(graph.run({.rate = 0.1, .run = [&] {
                                         return step.run(0.1,
                                                         [&] {
                                                           Tensor loss = loss_of(*model, real);
                                                           look(loss);
                                                           return loss;
                                                         },
                                                         {.samples = 4, .update_samples = 4});
                                       }}));
  }
  looped.replays = graph.replays();
  looped.why_not = graph.why_not();
  return looped;
}

}  // namespace

TEST_CASE("an update that copies what is no input is not recorded") {
  if (skipped("what cannot be recorded")) return;
  const Looped plain = train_looped(Device::cuda(), [](const Tensor&) {});
  CHECK(plain.replays == 0);
  CHECK(plain.why_not.find("bytes that are no input of it are copied to the device") !=
        std::string::npos);
}

TEST_CASE("an update that reads a value is not recorded") {
  for (const Device device : devices("what cannot be recorded")) {
    const Looped plain = train_looped(device, [](const Tensor&) {});
    CHECK(plain.losses.size() == 4);
    CHECK(plain.replays == (device.is_cpu() ? 3 : 0));
    const Looped read = train_looped(device, [](const Tensor& loss) { loss.item<double>(); });
    CHECK(read.replays == 0);
    CHECK(read.why_not.find("no values to read yet") != std::string::npos);
    CHECK(read.losses == plain.losses);
  }
  const Looped pointer =
      train_looped(Device::cpu(), [](const Tensor& loss) { (void)loss.data<float>()[0]; });
  CHECK(pointer.replays == 0);
  CHECK(pointer.why_not.find("no values to read yet") != std::string::npos);
}

TEST_CASE("an update is not started where it would write over a tensor that somebody holds") {
  const auto nothing = [](const Tensor&) {};
  const Looped plain = train_looped(Device::cpu(), nothing, 6);
  Tensor held;
  const Looped holds = train_looped(Device::cpu(), nothing, 6, [&](int step, const Problem&) {
    if (step == 3) held = full({500}, 7);  // where the arena is free between steps
    if (step == 4) {
      CHECK(held.to_vector<float>() == std::vector<float>(500, 7.0f));
      held = Tensor();
    }
  });
  CHECK(plain.replays == 5);
  CHECK(holds.replays == 4);
  CHECK(holds.losses == plain.losses);
}

TEST_CASE("an update whose kernel throws says what it says without a recording") {
  const auto nothing = [](const Tensor&) {};
  std::string errors[2];
  for (const bool records : {false, true}) {
    const auto spoil = [&](int step, const Problem& problem) {
      if (step == (records ? 3 : 0)) fill(problem.labels, 99);  // of four classes
    };
    errors[records] =
        error_text<ValueError>([&] { train_looped(Device::cpu(), nothing, 5, spoil); });
  }
  CHECK(errors[0].find("99") != std::string::npos);
  CHECK(errors[1] == errors[0]);
}
