// A profile has every launch of the updates that it looks at, in the module, op and phase where a
// trace has it, with the same bytes and FLOPs; its sums agree with each other; and a training that
// is profiled has the same bits in the same bytes.
#include "brim/train/profile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "brim/autograd/trace_recorder.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/numerics_watch.h"
#include "brim/train/profile_report.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;
using memory::Phase;

namespace {

struct Launches final : LaunchObserver {
  void launched(const LaunchEvent&) override { ++count; }
  int64_t count = 0;
};

/// By module, op and phase.
using Work = std::map<std::tuple<std::string, std::string, Phase>, std::pair<int64_t, double>>;

Work work_of(const std::vector<OpCost>& ops) {
  Work work;
  for (const OpCost& op : ops)
    CHECK(work.emplace(std::tuple(op.module, op.op, op.phase),
                       std::pair(op.cost.bytes_moved, op.cost.flops))
              .second);
  return work;
}

/// Of what moves bytes: views launch nothing.
Work work_of(const memory::Trace& trace) {
  Work work;
  for (const memory::TraceOp& op : trace.ops) {
    if (op.bytes_moved == 0) continue;
    const Phase phase = op.origin.phase == Phase::other ? Phase::update : op.origin.phase;
    auto& [bytes, flops] = work[{op.origin.module, op.origin.op, phase}];
    bytes += op.bytes_moved;
    flops += op.flops;
  }
  return work;
}

int64_t launches_in(const std::vector<OpCost>& ops) {
  return std::accumulate(ops.begin(), ops.end(), int64_t{0},
                         [](int64_t sum, const OpCost& op) { return sum + op.cost.launches; });
}

const OpCost* find(const std::vector<OpCost>& ops, const std::string& module, const std::string& op,
                   Phase phase) {
  auto found = std::ranges::find_if(ops, [&](const OpCost& one) {
    return one.module == module && one.op == op && one.phase == phase;
  });
  return found == ops.end() ? nullptr : &*found;
}

struct Training {
  explicit Training(const RecomputeOptions& recompute = {})
      : step(model, sgd, {.seed = 1, .recompute = recompute}) {}
  void update() {
    step.run(0.1, [&] { return cross_entropy(model(problem.images), problem.labels); });
  }

  SmallNet model;
  optim::Sgd sgd{model.named_parameters(), {.momentum = 0.9}};
  TrainStep step;
  Problem problem = random_problem(4, 8, 4);
};

/// One update, profiled.
ProfiledUpdate profiled(Training& training) {
  Profile profile({.warm_up = 0, .updates = 1});
  Profile::Scope scope(&profile, 0);
  training.update();
  scope.keep();
  REQUIRE(profile.updates().size() == 1);
  return profile.updates().front();
}

/// Of `steps` updates by a trainer.
ProfileReport report_of(int64_t steps, TrainerOptions options, int64_t last_images = 0,
                        const ProfileOptions& of = {}) {
  PlainNet model(Dtype::float32);
  optim::Sgd sgd(model.named_parameters());
  RandomBatches batches({.images = 8, .batches = 2, .last_images = last_images});
  Profile profile(of);
  options.steps = steps;
  options.profile = &profile;
  Trainer(model, sgd, {batches, nullptr}, options).run();
  return profile_report(profile);
}

}  // namespace

TEST_CASE("it has every launch, as a trace has its bytes and FLOPs") {
  for (const RecomputeOptions& recompute : {RecomputeOptions{}, segmented_recomputation(2, 6)}) {
    Training training(recompute);
    autograd::TraceRecorder recorder(memory::account(Device::cpu()));
    Launches launches;
    const LaunchObserverScope counting(launches);
    const ProfiledUpdate update = profiled(training);
    CHECK(launches.count > 30);
    CHECK(launches_in(update.ops) == launches.count);
    CHECK(work_of(update.ops) == work_of(recorder.take()));
  }
}

TEST_CASE("launches stand in their module and phase") {
  Training plain, recomputes(segmented_recomputation(2, 6));
  const std::vector<OpCost> kept = profiled(plain).ops, dropped = profiled(recomputes).ops;
  for (const std::string module : {"conv1", "conv2"})
    for (Phase phase : {Phase::forward, Phase::backward}) {
      CAPTURE(module);
      CHECK(find(kept, module, "conv2d", phase) != nullptr);
      CHECK(find(dropped, module, "conv2d", phase) != nullptr);
    }
  CHECK(find(kept, "fc", "linear", Phase::backward) != nullptr);
  CHECK(find(kept, "", "cross_entropy", Phase::forward) != nullptr);
  // Each of the parameters: two convolutions, two norms with scale and shift, weights and bias.
  REQUIRE(find(kept, "", "sgd", Phase::update) != nullptr);
  CHECK(find(kept, "", "sgd", Phase::update)->cost.launches == 8);
  const auto is_made_again = [](const OpCost& op) { return op.phase == Phase::recompute; };
  CHECK(std::ranges::none_of(kept, is_made_again));
  CHECK(std::ranges::any_of(dropped, is_made_again));
}

TEST_CASE("launches take no longer than the update, and all sums are of the same") {
  const ProfileReport report =
      report_of(1, {.recompute = free_recomputation()}, 0, {.warm_up = 0, .updates = 1});
  CHECK(report.launched.seconds > 0);
  CHECK(report.launched.seconds <= report.clocked);
  CHECK(report.seconds() == doctest::Approx(report.clocked));
  CHECK(report.launched.launches == launches_in(report.ops));
  LaunchCost of_ops, of_modules;
  double of_phases = 0;
  for (const OpCost& op : by_op(report)) of_ops += op.cost;
  for (const ModuleCost& module : by_module(report)) {
    if (module.depth == 0) of_modules += module.cost;
    CHECK(std::accumulate(module.seconds.begin(), module.seconds.end(), 0.0) ==
          doctest::Approx(module.cost.seconds));
  }
  for (double seconds : by_phase(report)) of_phases += seconds;
  CHECK(of_phases == doctest::Approx(report.launched.seconds));
  for (const LaunchCost& sum : {of_ops, of_modules}) {
    CHECK(sum.launches == report.launched.launches);
    CHECK(sum.bytes_moved == report.launched.bytes_moved);
    CHECK(sum.flops == doctest::Approx(report.launched.flops));
    CHECK(sum.seconds == doctest::Approx(report.launched.seconds));
  }
}

TEST_CASE("modules are a tree, each with what is in it") {
  ProfileReport report{.steps = {3}};
  const auto add = [&](const char* module, Phase phase, double seconds) {
    report.ops.push_back(
        {module, "relu", phase, {.launches = 1, .seconds = seconds, .bytes_moved = 2, .flops = 3}});
  };
  add("stem", Phase::forward, 1);
  add("layer1.0.conv1", Phase::forward, 2);
  add("layer1.0", Phase::forward, 4);
  add("", Phase::update, 5);
  add("layer1.1", Phase::backward, 6);
  std::vector<std::tuple<std::string, int, double, double>> rows;
  for (const ModuleCost& module : by_module(report)) {
    CHECK(module.cost.flops == 3 * static_cast<double>(module.cost.launches));
    rows.emplace_back(module.module, module.depth, module.cost.seconds,
                      module.seconds[static_cast<size_t>(Phase::backward)]);
  }
  CHECK(rows == decltype(rows){{"stem", 0, 1, 0},
                               {"layer1", 0, 12, 6},
                               {"layer1.0", 1, 6, 0},
                               {"layer1.0.conv1", 2, 2, 0},
                               {"layer1.1", 1, 6, 6},
                               {"", 0, 5, 0}});
}

TEST_CASE("the first updates warm up, and medians are over those that did the same work") {
  CHECK(report_of(3, {}).steps.empty());
  CHECK(report_of(20, {}).steps == std::vector<int64_t>{3, 4, 5, 6, 7});
  const ProfileReport uneven = report_of(20, {}, /*last_images=*/5);
  CHECK(uneven.steps == std::vector<int64_t>{3, 4, 6, 7});
  CHECK(uneven.unlike == 1);

  Training training;
  Profile profile({.warm_up = 1, .updates = 4});
  for (int i = 0; i < 6; ++i) {
    Profile::Scope scope(&profile, i);
    training.update();
    if (i != 3) scope.keep();  // skipped, say
  }
  CHECK(profile.is_done());
  const ProfileReport report = profile_report(profile);
  CHECK(report.steps == std::vector<int64_t>{1, 2, 4, 5});
  const auto middle = [&](const auto& seconds_of) {
    std::vector<double> all;
    for (const ProfiledUpdate& update : profile.updates()) all.push_back(seconds_of(update));
    std::ranges::sort(all);
    return (all[1] + all[2]) / 2;
  };
  CHECK(report.clocked == middle([](const ProfiledUpdate& update) { return update.seconds; }));
  CHECK(report.outside == doctest::Approx(middle([](const ProfiledUpdate& update) {
          return std::accumulate(
              update.ops.begin(), update.ops.end(), update.seconds,
              [](double left, const OpCost& op) { return left - op.cost.seconds; });
        })));
  for (size_t i = 0; i < report.ops.size(); ++i)
    CHECK(report.ops[i].cost.seconds ==
          middle([i](const ProfiledUpdate& update) { return update.ops[i].cost.seconds; }));
}

TEST_CASE("an update that failed is not kept, and the next one is whole") {
  Training training;
  const Work whole = work_of(profiled(training).ops);
  Profile profile({.warm_up = 0});
  memory::account(Device::cpu())->fail_nth(20);
  {
    Profile::Scope scope(&profile, 0);
    CHECK_THROWS_AS(training.update(), memory::OutOfMemory);
  }
  CHECK(profile.updates().empty());
  Profile::Scope scope(&profile, 0);
  training.update();
  scope.keep();
  REQUIRE(profile.updates().size() == 1);
  CHECK(work_of(profile.updates().front().ops) == whole);
}

TEST_CASE("a training that is profiled has the same bits in the same bytes") {
  const auto trained = [](Profile* profile) {
    auto account = memory::capped_host_account("caching");
    const memory::AccountScope scope(account);
    std::vector<float> values;
    std::vector<double> losses;
    {
      PlainNet model(Dtype::float32);
      optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
      optim::LossScaler scaler({.initial = 0x1p40});
      RandomBatches batches({.images = 8, .batches = 5});
      Trainer trainer(
          model, sgd, {batches, nullptr},
          {.steps = 45, .precision = Dtype::float16, .scaler = &scaler, .profile = profile});
      trainer.on_step = [&](const StepReport& report) {
        losses.push_back(report.skipped ? 0 : report.loss);
      };
      trainer.run();
      values = values_of(model.named_parameters());
    }
    const memory::AccountStats stats = account->stats();
    return std::tuple(values, losses, stats.peak_live, stats.peak_reserved, stats.requests);
  };
  Profile profile;
  CHECK(trained(&profile) == trained(nullptr));
  REQUIRE(profile.is_done());
  // Many are skipped at first, and neither warm up nor count.
  CHECK(profile.updates().front().step > 10);
}

TEST_CASE("updates that a watch looks at are not profiled") {
  NumericsWatch watch({.every = 4});
  CHECK(report_of(20, {.watch = &watch}).steps == std::vector<int64_t>{5, 6, 7, 9, 10});
}

TEST_CASE("the text says where the time goes, and the page has every module and op") {
  const ProfileReport report = report_of(4, {}, 0, {.warm_up = 2});
  const std::vector<std::string> lines = summary_of(report);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("updates 2, 3: "));
  CHECK(lines[1].starts_with("forward "));
  CHECK(lines[1].ends_with(" in no launch"));
  CHECK(lines[2].starts_with(fmt::format("{} launches moved ", report.launched.launches)));
  const std::string table = table_of(report, /*most=*/2);
  CHECK(table.starts_with("module "));
  CHECK(table.find("\nop ") != table.npos);
  CHECK(table.find(fmt::format("\nand {} with no more time\n", by_op(report).size() - 2)) !=
        table.npos);
  const std::string page = profile_page(report, {"a <small> net"});
  CHECK(page.find("a &lt;small> net") != page.npos);
  for (const std::string& line : lines) CHECK(page.find(line) != page.npos);
  for (const ModuleCost& module : by_module(report))
    CHECK(page.find(fmt::format("data-value=\"{}\"",
                                module.module.empty() ? "(outside of modules)" : module.module)) !=
          page.npos);
  for (const OpCost& op : by_op(report))
    CHECK(page.find(fmt::format("data-value=\"{} {}\"", op.op, memory::to_string(op.phase))) !=
          page.npos);
  CHECK(summary_of(ProfileReport{})[0].starts_with("no update was profiled"));
  CHECK(table_of(ProfileReport{}).empty());
  CHECK(profile_page(ProfileReport{}).ends_with("</html>\n"));
}

TEST_CASE("with a peak, costs say what they take at it, and what is furthest from it comes first") {
  Training training;
  Profile profile({.warm_up = 0, .updates = 3});
  for (int i = 0; !profile.is_done(); ++i) {
    Profile::Scope scope(&profile, i);
    training.update();
    scope.keep();
  }
  const MachinePeak peak{1e9, 2e9, 1e8};
  const ProfileReport report = profile_report(profile, peak);
  double least = 0;
  for (const OpCost& op : report.ops) {
    const double arithmetic = op.cost.flops / 1e9;
    const double traffic = static_cast<double>(op.cost.bytes_moved) / 1e8;
    CHECK(op.cost.least_seconds == std::max(arithmetic, traffic));
    least += op.cost.least_seconds;
  }
  CHECK(least > 0);
  CHECK(report.launched.least_seconds == doctest::Approx(least));
  for (const auto& rows : {by_op(report), by_layer(report), by_call(report)}) {
    CHECK(rows.size() > 3);
    CHECK(std::ranges::is_sorted(rows, std::greater(),
                                 [](const OpCost& op) { return op.cost.excess(); }));
    double sum = 0;
    for (const OpCost& row : rows) sum += row.cost.least_seconds;
    CHECK(sum == doctest::Approx(least));
  }
  const std::vector<std::string> lines = summary_of(report);
  REQUIRE(lines.size() == 4);
  CHECK(lines[3].starts_with(
      "at this machine's peak, 1.0 GFLOP/s (2.0 in halves) and 0.1 GB/s, they take "));
  const std::string table = table_of(report, 2);
  for (const char* text :
       {"At peak ms", "Excess ms", "\nop of a module ", " with no more excess\n"}) {
    CAPTURE(text);
    CHECK(table.find(text) != table.npos);
  }
  const std::string page = profile_page(report);
  CHECK(page.find("data-value=\"conv1 conv2d backward\"") != page.npos);
  CHECK(profile_page(profile_report(profile)).find("At peak ms") == page.npos);
}

TEST_CASE(
    "halves have a peak of their own, and float32 copies of them are not in the least bytes") {
  const MachinePeak peak{1e9, 4e9, 1e8};
  CHECK(least_seconds({.flops = 8e9}, peak) == 8);
  CHECK(least_seconds({.flops = 8e9, .half_flops = 8e9}, peak) == 2);
  CHECK(least_seconds({.flops = 8e9, .half_flops = 4e9}, peak) == 5);
  CHECK(least_seconds({.bytes_moved = 300'000'000, .bytes_widened = 100'000'000}, peak) == 2);
  CHECK(least_seconds({.bytes_moved = 300'000'000, .flops = 4e9}, peak) == 4);

  SmallNet model;
  optim::Sgd sgd(model.named_parameters());
  TrainStep step(model, sgd, {.precision = Dtype::bfloat16});
  const Problem problem = random_problem(4, 8, 4);
  Profile profile({.warm_up = 0, .updates = 1});
  Profile::Scope scope(&profile, 0);
  step.run(0.1, [&] { return cross_entropy(model(problem.images), problem.labels); });
  scope.keep();
  REQUIRE(profile.updates().size() == 1);
  const auto& ops = profile.updates().front().ops;
  for (Phase phase : {Phase::forward, Phase::backward}) {
    const OpCost* conv = find(ops, "conv2", "conv2d", phase);
    REQUIRE(conv != nullptr);
    CHECK(conv->cost.flops > 0);
    CHECK(conv->cost.half_flops == conv->cost.flops);
  }
  for (const OpCost& op : profiled(*std::make_unique<Training>()).ops)
    CHECK(op.cost.half_flops == 0);
}

TEST_CASE("the measured peak is what this machine reaches") {
  const int64_t live = memory::account(Device::cpu())->stats().live;
  const MachinePeak peak = measured_peak();
  CHECK(memory::account(Device::cpu())->stats().live == live);
  // Any processor that runs this, and more than any has.
  CHECK(peak.flops_per_second > 1e8);
  CHECK(peak.flops_per_second < 1e15);
  CHECK(peak.half_flops_per_second >= peak.flops_per_second);
  CHECK(peak.bytes_per_second > 1e8);
  CHECK(peak.bytes_per_second < 1e13);
}

TEST_CASE("options out of range are refused") {
  CHECK_THROWS_WITH_AS(Profile({.warm_up = -1}), doctest::Contains("got -1"), ValueError);
  CHECK_THROWS_WITH_AS(Profile({.updates = 0}), doctest::Contains("got 0"), ValueError);
  Profile::Scope scope(nullptr, 0);
  scope.keep();
}
