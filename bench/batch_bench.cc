// The largest batch for random budgets, planned and by trial. Planned: `tune_batch`, then a real
// run of what it found, within the budget and as predicted, and plans of the next larger batches,
// which must all be refused. By trial, as trainers elsewhere do it: real runs with twice the batch
// until one runs out of memory, then bisection between. Both under the caching planner, and the
// plan under the arena too, whose batch is at least as large.
#include <fmt/format.h>

#include <iostream>
#include <string>
#include <vector>

#include "brim/bench/timing.h"
#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/program.h"
#include "brim/memory/out_of_memory.h"
#include "brim/tests/train/planned_training.h"

namespace {

using namespace brim;
using bench::Clock;
using bench::seconds_since;
using brim::testing::TrainingCase;

constexpr int64_t kLarger = 11;  // batches above the one that is found, which must be refused

struct Options {
  std::vector<std::string> models{"resnet18", "resnet50", "mobilenet_v2", "resnet20"};
  int size = 224, budgets = 20;
  int64_t most = 32;  // budgets are up to what this batch takes
  uint64_t seed = 1;
  bool trial = false;
};

struct Found {
  int64_t batch = 0, runs = 0, failures = 0;
  double seconds = 0;
};

Found by_plan(const TrainingCase& c, const std::string& planner, int64_t limit) {
  auto start = Clock::now();
  TunedBatch tuned = tune_batch(
      {.rehearsal = [&](int64_t batch) { return testing::rehearsal_options(c.with_batch(batch)); },
       .planner = planner,
       .limit = limit,
       .most = 1 << 20});
  return {.batch = tuned.batch, .runs = tuned.rehearsals, .seconds = seconds_since(start)};
}

Found by_trial(const TrainingCase& c, int64_t limit) {
  Found found;
  auto start = Clock::now();
  auto fits = [&](int64_t batch) {
    ++found.runs;
    try {
      testing::train(c.with_batch(batch), memory::planner_named("caching"), limit);
      return true;
    } catch (const memory::OutOfMemory&) {
      ++found.failures;
      return false;
    }
  };
  int64_t low = 1, high = 2;  // one image: taken as given
  while (fits(high)) high = 2 * (low = high);
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  found.batch = low;
  found.seconds = seconds_since(start);
  return found;
}

/// What is wrong with a batch for the arena and a limit; "" where it runs as predicted and the
/// larger ones are refused.
std::string fault_of(const TrainingCase& c, int64_t limit) {
  RehearsedPlan plan = plan_on_meta(testing::rehearsal_of(c));
  try {
    memory::AccountStats measured = testing::train(c, memory::arena_planner(plan.plan), limit);
    if (measured.peak_reserved != plan.predicted.peak_reserved)
      return fmt::format("measured {}, predicted {}", measured.peak_reserved,
                         plan.predicted.peak_reserved);
  } catch (const memory::OutOfMemory&) {
    return "ran out of memory";
  }
  for (int64_t more = 1; more <= kLarger; ++more)
    if (testing::predicted(c.with_batch(c.batch + more), "arena").peak_reserved <= limit)
      return fmt::format("batch {} fits too", c.batch + more);
  return "";
}

void report(const TrainingCase& c, const Options& options, RandomStream& random) {
  const int64_t least = testing::predicted(c.with_batch(4), "arena").peak_reserved;
  const int64_t most = testing::predicted(c.with_batch(options.most), "arena").peak_reserved;
  for (int i = 0; i < options.budgets; ++i) {
    auto extra = static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least)));
    const int64_t limit = least + extra;
    Found arena = by_plan(c, "arena", limit);
    std::string fault = fault_of(c.with_batch(arena.batch), limit);
    std::string line =
        fmt::format("{:<14}{:>14}{:>7}{:>6}{:>8.3f}  {}", c.model, limit, arena.batch, arena.runs,
                    arena.seconds, fault.empty() ? "as predicted" : fault);
    if (options.trial) {
      Found caching = by_plan(c, "caching", limit), trial = by_trial(c, limit);
      line += fmt::format(" |{:>6}{:>8.3f} |{:>6}{:>6}{:>6}{:>9.2f}", caching.batch,
                          caching.seconds, trial.batch, trial.runs, trial.failures, trial.seconds);
    }
    fmt::print("{}\n", line);
    std::cout.flush();
  }
}

void report_all(const Options& options) {
  fmt::print("Arena: batch, rehearsals, seconds; caching: batch, seconds{}\n",
             options.trial ? " | by trial: batch, runs, out of memory, seconds" : "");
  RandomStream random{RandomKey{options.seed}};
  for (const std::string& model : options.models)
    report({model, model == "resnet20" ? 32 : options.size, 4, "sgd"}, options, random);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  apps::App app("The largest batch for random budgets, planned and by trial.", "batch_bench");
  app.add_option("--models", options.models).may_repeat(',').shows_default();
  app.add_option("--size", options.size, "pixels; of resnet20 32").shows_default();
  app.add_option("--budgets", options.budgets, "of each model").shows_default();
  app.add_option("--most", options.most, "batch whose bytes are the largest budget")
      .check(apps::whole_number(8, 4096))
      .shows_default();
  app.add_option("--seed", options.seed).shows_default();
  app.add_flag("--trial", options.trial, "search by real runs too");
  return apps::run_program(app, argc, argv, [&] { report_all(options); });
}
