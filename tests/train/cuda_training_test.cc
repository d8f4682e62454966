// Whole trainings on a GPU, or an emulated one: what is predicted is what is held, to the byte; the
// losses are those of the CPU; and a checkpoint of one goes on with the same bits. Where there is
// neither, it says so.
#include <doctest/doctest.h>

#include <cmath>

#include "brim/autograd/offload_all.h"
#include "brim/base/cuda/devices.h"
#include "brim/core/slow_launches.h"
#include "brim/tests/support/cuda_libraries.h"
#include "brim/tests/support/cuda_skip.h"
#include "brim/tests/support/fake_driver.h"
#include "brim/tests/support/plain_cublaslt.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/planned_training.h"
#include "brim/tests/train/small_net.h"

#ifdef BRIM_EMULATED_GPU
#include "brim/tests/support/cuda_emulator/troubles.h"
#endif

using namespace brim;
using namespace brim::testing;

namespace {

bool skipped(const char* what) { return use_plain_cuda_libraries(), skipped_on_cuda(what); }

TrainingCase case_on(Device device, const std::string& optimizer) {
  return {.model = "resnet20", .size = 16, .batch = 3, .optimizer = optimizer, .device = device};
}

// What a training gives in numbers.
struct Numbers {
  std::vector<double> losses;
  std::vector<float> weights;
};

struct Run {
  Device device;
  std::string optimizer = "sgd";
  int64_t steps = 4, stops_after = 0;
  Checkpoints* checkpoints = nullptr;
  bool resumes = false;
  Dtype precision = Dtype::float32;  ///< float16 with a scaled loss
  RecomputeOptions recompute = {};
  bool offloads = false;  ///< all that is saved
};

RecomputeOptions offload_all() {
  return {.name = "all offloaded",
          .make_policy = [] { return std::make_unique<autograd::OffloadAll>(); }};
}

Numbers train_small(const Run& run) {
  const auto made = nn::make<SmallNet>({.device = run.device});
  SmallNet& model = *made;
  Updating updating = make_updating({.optimizer = run.optimizer}, model);
  optim::Ema ema(model, {.decay = 0.9});
  RandomBatches batches({.images = 6, .batches = 4, .size = 6});
  TrainerOptions options{.steps = run.steps,
                         .schedule = optim::ConstantSchedule{.rate = 0.05},
                         .input = {.device = run.device},
                         .micro_batch = 4};
  options.ema = &ema;
  options.precision = run.precision;
  options.recompute = run.offloads ? offload_all() : run.recompute;
  options.offload.enabled = run.offloads;
  optim::LossScaler scaler;
  if (run.precision == Dtype::float16) options.scaler = &scaler;
  options.clip.norm = 1.0;
  options.checkpoints = run.checkpoints;
  Trainer trainer(model, *updating.optimizer, {batches, nullptr}, options);
  Numbers numbers;
  trainer.on_step = [&](const StepReport& report) { numbers.losses.push_back(report.loss); };
  trainer.should_stop = [&] { return trainer.updates() == run.stops_after; };
  if (run.resumes) trainer.resume();
  trainer.run();
  numbers.weights = values_of(model.named_parameters());
  for (float value : values_of(model.named_buffers())) numbers.weights.push_back(value);
  for (float value : values_of(ema.named_state())) numbers.weights.push_back(value);
  return numbers;
}

int64_t count_slow() {
  int64_t count = 0;
  for (const SlowLaunches& each : slow_launches()) count += each.count;
  return count;
}

double largest_difference(const auto& a, const auto& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

}  // namespace

TEST_CASE("a training on a GPU holds what the meta device says, standing for it") {
  if (skipped("predictions")) return;
  const Device gpu = Device::cuda();
  for (const char* optimizer : {"sgd", "adamw"}) {
    const TrainingCase c = case_on(gpu, optimizer);
    StandInScope scope(stand_in_for(gpu));
    const RehearsedPlan planned = plan_on_meta(rehearsal_of(c));
    const memory::AccountStats measured =
        train(c, memory::arena_planner(planned.plan, {.device = gpu}));
    CHECK(measured.peak_reserved == planned.predicted.peak_reserved);
    CHECK(measured.peak_live == planned.predicted.peak_live);
    CHECK(measured.by_category_at_peak == planned.predicted.at_peak);
    CHECK(measured.mismatches == 0);
  }
  const TrainingCase c = case_on(gpu, "sgd");
  StandInScope scope(stand_in_for(gpu));
  const StepMemory caching = measure_on_meta(memory::planner_named("caching"), rehearsal_of(c));
  CHECK(train(c, memory::planner_named("caching")).peak_reserved == caching.peak_reserved);
}

TEST_CASE(
    "a training on a GPU holds what is said, whichever algorithm its products have, or none") {
  if (skipped("products that are refused")) return;
  if (!use_plain_cublaslt()) {
    MESSAGE("skipped: products that are refused (no emulated GPU)");
    return;
  }
  const Device gpu = Device::cuda();
  StandInScope scope(stand_in_for(gpu));
  int64_t batch = 4;  // each its own, for what was chosen is kept
  for (const CublasLtTroubles& troubles :
       {CublasLtTroubles{.unordered = 2}, CublasLtTroubles{.has_none = true}}) {
    const CublasLtTrouble trouble(troubles);
    const TrainingCase c = case_on(gpu, "sgd").with_batch(++batch);
    const int64_t before = count_slow();
    const RehearsedPlan planned = plan_on_meta(rehearsal_of(c));
    const memory::AccountStats measured =
        train(c, memory::arena_planner(planned.plan, {.device = gpu}));
    CHECK(measured.peak_reserved == planned.predicted.peak_reserved);
    CHECK(measured.mismatches == 0);
    CHECK((count_slow() > before) == troubles.has_none);
  }
}

TEST_CASE("a training on a GPU has the numbers of the CPU, up to rounding") {
  if (skipped("trainings")) return;
  for (const char* optimizer : {"sgd", "adamw"}) {
    const Numbers here = train_small({.device = Device::cpu(), .optimizer = optimizer}),
                  there = train_small({.device = Device::cuda(), .optimizer = optimizer});
    REQUIRE(here.losses.size() == 4);
    CHECK(largest_difference(here.losses, there.losses) < 1e-4);
    // AdamW divides by the root of squares, which near 0 makes much of little.
    CHECK(largest_difference(here.weights, there.weights) <
          (optimizer == std::string("sgd") ? 1e-4 : 1e-2));
  }
}

TEST_CASE("a training on a GPU goes on from its checkpoint with the same bits") {
  if (skipped("checkpoints")) return;
  TempFolder folder;
  const Numbers whole = train_small({.device = Device::cuda(), .steps = 8});
  Checkpoints checkpoints(folder.path(), {});
  train_small(
      {.device = Device::cuda(), .steps = 8, .stops_after = 3, .checkpoints = &checkpoints});
  const Numbers rest = train_small(
      {.device = Device::cuda(), .steps = 8, .checkpoints = &checkpoints, .resumes = true});
  CHECK(rest.weights == whole.weights);
}

TEST_CASE("a training on a GPU has the same bits whatever waits for backward, and where") {
  if (skipped("recomputation and offload")) return;
  const Device gpu = Device::cuda();
  const Numbers all = train_small({.device = gpu});
  const Numbers recomputed = train_small({.device = gpu, .recompute = free_recomputation()});
  const Numbers segmented =
      train_small({.device = gpu, .recompute = segmented_recomputation(2, 5)});
  const Numbers offloaded = train_small({.device = gpu, .offloads = true});
  for (const Numbers& other : {recomputed, segmented, offloaded}) {
    CHECK(other.losses == all.losses);
    CHECK(other.weights == all.weights);
  }
}

TEST_CASE("a training on a GPU that works late has the bits of one that works at once") {
#ifdef BRIM_EMULATED_GPU
  if (skipped("late work")) return;
  using cuda::emulator::OtherStreams;
  const Device gpu = Device::cuda();
  for (bool offloads : {false, true}) {
    const Numbers at_once = train_small({.device = gpu, .offloads = offloads});
    for (OtherStreams others : {OtherStreams::stay, OtherStreams::run_ahead}) {
      cuda::emulator::LateScope late(others);
      const Numbers lately = train_small({.device = gpu, .offloads = offloads});
      CHECK(lately.losses == at_once.losses);
      CHECK(lately.weights == at_once.weights);
    }
  }
#else
  MESSAGE("skipped: late work (no emulated GPU)");
#endif
}

// On the memory of a driver that can be told what others hold: for an emulated GPU any is right.
TEST_CASE("a training on a GPU of which another program takes memory goes on in smaller parts") {
  if (!use_plain_cuda_libraries()) {
    MESSAGE("skipped: memory that others take (no emulated GPU)");
    return;
  }
  auto driver = std::make_shared<FakeDriver>(FakeDriverOptions{.total = 8 << 20});
  auto account = std::make_shared<memory::Account>(Device::cuda(),
                                                   std::make_unique<memory::CudaSource>(driver),
                                                   memory::planner_named("direct"));
  memory::AccountScope scope(account);
  {
    const auto made = nn::make<PlainNet>({.device = Device::cuda()}, Dtype::float32);
    Updating updating = make_updating({}, *made);
    RandomBatches batches({.images = 8, .batches = 6, .size = 8});
    Trainer trainer(*made, *updating.optimizer, {batches, nullptr},
                    {.steps = 6,
                     .schedule = optim::ConstantSchedule{.rate = 0.01},
                     .input = {.device = Device::cuda()}});
    std::vector<ReplanReport> replans;
    trainer.on_replan = [&](const ReplanReport& report) { replans.push_back(report); };
    trainer.on_step = [&](const StepReport&) {
      if (trainer.updates() != 2) return;
      const memory::AccountStats stats = account->stats();
      const int64_t left = (stats.live + stats.peak_live) / 2;
      driver->set_others((8 << 20) - left);
    };
    trainer.run();
    CHECK(trainer.updates() == 6);
    REQUIRE(replans.size() == 1);
    CHECK(replans[0].micro_batch < 8);
    CHECK(trainer.counts().out_of_memory == 1);
    CHECK(account->cap() < 8 << 20);
  }
  CHECK(driver->breach() == "");
  CHECK(driver->held() == 0);
}

// Each product is rounded to 8 or 11 bits, here and there by other sums: a few steps stay together
// to about as much.
TEST_CASE("a training in halves on a GPU follows that of the CPU, the scale of the loss too") {
  if (skipped("halves")) return;
  for (auto [precision, bound] :
       {std::pair(Dtype::bfloat16, 3e-2), std::pair(Dtype::float16, 4e-3)}) {
    const Numbers here = train_small({.device = Device::cpu(), .precision = precision}),
                  there = train_small({.device = Device::cuda(), .precision = precision});
    CHECK(largest_difference(here.losses, there.losses) < bound);
    CHECK(here.losses != train_small({.device = Device::cpu()}).losses);
  }
}
