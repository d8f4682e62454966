// A profile of a training on a GPU, or an emulated one, by events: it has the launches of the
// CPU's, changes neither bits nor bytes, and never waits between two launches. Where there is
// neither, it says so.
#include <doctest/doctest.h>

#include <tuple>

#include "brim/base/cuda/devices.h"
#include "brim/base/cuda/graph.h"
#include "brim/memory/stream.h"
#include "brim/nn/creation.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/cuda_libraries.h"
#include "brim/tests/support/cuda_skip.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/planned_training.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/launch_clock.h"
#include "brim/train/profile_report.h"

using namespace brim;
using namespace brim::testing;

namespace {

bool skipped(const char* what) { return use_plain_cuda_libraries(), skipped_on_cuda(what); }

struct Outcome {
  std::vector<float> values;
  std::vector<double> losses;
  int64_t live = 0, reserved = 0, requests = 0;
  std::string why_no_graph;
  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.values == b.values && a.losses == b.losses && a.live == b.live &&
           a.reserved == b.reserved && a.requests == b.requests;
  }
};

Outcome train(Device device, Profile* profile, bool graph = false) {
  auto account = std::make_shared<memory::Account>(device, source_of({.device = device}, 64 << 20),
                                                   memory::planner_named("caching"));
  const memory::AccountScope scope(account);
  Outcome outcome;
  {
    const auto model = nn::make<SmallNet>({.device = device});
    optim::Sgd sgd(model->named_parameters(), {.momentum = 0.9});
    RandomBatches batches({.images = 6, .batches = 3, .size = 6});
    Trainer trainer(*model, sgd, {batches, nullptr},
                    {.steps = 7,
                     .schedule = optim::ConstantSchedule{.rate = 0.05},
                     .input = {.device = device},
                     .profile = profile,
                     .recompute = free_recomputation(),
                     .graph = graph});
    trainer.on_step = [&](const StepReport& report) { outcome.losses.push_back(report.loss); };
    trainer.run();
    outcome.values = values_of(model->named_parameters());
    outcome.why_no_graph = trainer.why_no_graph();
  }
  const memory::AccountStats stats = account->stats();
  outcome.live = stats.peak_live;
  outcome.reserved = stats.peak_reserved;
  outcome.requests = stats.requests;
  return outcome;
}

/// Where there are launches: by op of the network.
std::vector<std::tuple<std::string, std::string, memory::Phase>> places_of(const Profile& profile) {
  std::vector<std::tuple<std::string, std::string, memory::Phase>> places;
  for (const OpCost& op : profile_report(profile).ops)
    if (!op.module.empty()) places.emplace_back(op.module, op.op, op.phase);
  return places;
}

}  // namespace

TEST_CASE("a profile of a GPU: the launches of the CPU's, with seconds") {
  if (skipped("profiles")) return;
  Profile gpu({.device = Device::cuda(), .updates = 3}), cpu({.updates = 3});
  train(Device::cuda(), &gpu);
  train(Device::cpu(), &cpu);
  CHECK(places_of(gpu).size() > 10);
  CHECK(places_of(gpu) == places_of(cpu));
  const ProfileReport report = profile_report(gpu);
  CHECK(report.steps == std::vector<int64_t>{3, 4, 5});
  CHECK(report.launched.seconds > 0);
  // One stream: no two launches at once. Events tell microseconds.
  for (const ProfiledUpdate& update : gpu.updates()) {
    double launched = 0;
    for (const OpCost& op : update.ops)
      launched += op.cost.seconds - 1e-6 * static_cast<double>(op.cost.launches);
    CHECK(launched <= update.seconds);
  }
  for (const OpCost& op : report.ops) CHECK(op.cost.seconds >= 0);
}

TEST_CASE("a profile of a GPU: the same bits in the same bytes, without graphs") {
  if (skipped("profiled trainings")) return;
  Profile profile({.device = Device::cuda()});
  CHECK(train(Device::cuda(), &profile) == train(Device::cuda(), nullptr));
  CHECK(profile.updates().size() == 4);
  CHECK(train(Device::cuda(), &profile, /*graph=*/true).why_no_graph ==
        "the launches are profiled, and a graph has none");
}

// Whoever waits while work is recorded fails the recording.
TEST_CASE("a profile of a GPU: beside a launch nothing waits") {
  if (skipped("events")) return;
  const auto clock = launch_clock(Device::cuda());
  cuda::Recording recording(Device::cuda(), [](int64_t) -> void* { return nullptr; });
  for (int i = 0; i < 3; ++i) {
    clock->begin();
    clock->end();
  }
  CHECK_NOTHROW(recording.finish());
}

TEST_CASE("a profile of a GPU: launches on each stream, and those that end") {
  if (skipped("streams")) return;
  const auto clock = launch_clock(Device::cuda());
  clock->begin();  // and threw
  for (int stream : {0, 1}) {
    const memory::StreamScope scope(stream);
    clock->begin();
    clock->end();
  }
  const std::vector<double> seconds = clock->take();
  REQUIRE(seconds.size() == 2);
  for (double one : seconds) CHECK(one >= 0);
  CHECK(clock->take().empty());
}

TEST_CASE("what is recorded is not profiled") {
  if (skipped("recordings")) return;
  Profile profile({.device = Device::cuda(), .warm_up = 0});
  Tensor x = zeros({4}, {.device = Device::cuda()});
  {
    Profile::Scope scope(&profile, 0);
    cuda::Recording recording(Device::cuda(), [](int64_t) -> void* { return nullptr; });
    fill(x, 1);
    recording.finish().start();
    scope.keep();
  }
  CHECK(profile.updates().empty());
  CHECK(x.to_vector<float>() == std::vector<float>(4, 1));
}
