// Prediction against measurement, over models, batches, optimizers and planners: what a short
// training run was said to hold, and what it held; the height of the arena over the largest live
// sum; what other planners, and the policy of PyTorch's caching allocator, reserve for the same
// requests; how long tracing and packing take. `--predict` leaves the real runs out.
#include <fmt/format.h>

#include <iostream>
#include <string>
#include <vector>

#include "brim/base/bytes.h"
#include "brim/bench/timing.h"
#include "brim/bench/torch_policy.h"
#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/program.h"
#include "brim/tests/train/planned_training.h"

namespace {

using namespace brim;
using brim::testing::TrainingCase;

struct Options {
  std::vector<std::string> models{"resnet18",     "resnet50",           "resnet152", "mobilenet_v1",
                                  "mobilenet_v2", "mobilenet_v3_large", "resnet20"};
  std::vector<int> batches{2, 4, 8};
  std::vector<std::string> optimizers{"sgd", "adamw"};
  int size = 224, repeats = 5;
  bool predict = false;
};

/// What PyTorch's policy would have reserved in the end, which is its peak: it gives nothing back.
int64_t torch_reserved(const memory::Trace& trace) {
  std::vector<std::vector<int64_t>> released(static_cast<size_t>(trace.end) + 1);
  for (const memory::TraceBuffer& buffer : trace.buffers)
    released[static_cast<size_t>(buffer.death)].push_back(buffer.birth);
  bench::TorchPolicy policy;
  for (const memory::TraceBuffer& buffer : trace.buffers) {
    for (int64_t gone : released[static_cast<size_t>(buffer.birth)]) policy.release(gone);
    policy.allocate(buffer.birth, buffer.bytes);
  }
  return policy.reserved();
}

std::string difference(const TrainingCase& c, const memory::MakePlanner& planner,
                       const StepMemory& predicted, const Options& options) {
  if (options.predict) return "-";
  memory::AccountStats measured = testing::train(c, planner);
  return fmt::format("{}/{}/{}", measured.peak_reserved - predicted.peak_reserved,
                     measured.peak_live - predicted.peak_live, measured.mismatches);
}

void report(const TrainingCase& c, const Options& options) {
  std::vector<double> trace_seconds, pack_seconds;
  RehearsedPlan planned;
  for (int i = 0; i < options.repeats; ++i) {
    planned = plan_on_meta(testing::rehearsal_of(c));
    trace_seconds.push_back(planned.trace_seconds);
    pack_seconds.push_back(planned.pack_seconds);
  }
  auto bound = static_cast<double>(planned.plan->lower_bound);
  auto over = [&](int64_t bytes) { return static_cast<double>(bytes) / bound; };
  std::string line =
      fmt::format("{:<20}{:>5}{:>8}{:>16}{:>8.5f}{:>14}", c.model, c.batch, c.optimizer,
                  planned.plan->lower_bound, over(planned.plan->arena_bytes),
                  difference(c, memory::arena_planner(planned.plan), planned.predicted, options));
  for (const char* name : {"caching", "direct"}) {
    auto make = memory::planner_named(name);
    StepMemory predicted = measure_on_meta(make, testing::rehearsal_of(c));
    line += fmt::format("{:>8.3f}{:>14}", over(predicted.peak_reserved),
                        difference(c, make, predicted, options));
  }
  fmt::print("{}{:>8.3f}{:>8.3f}{:>8.3f}\n", line, over(torch_reserved(planned.trace)),
             bench::median(trace_seconds), bench::median(pack_seconds));
  std::cout.flush();
}

void report_all(const Options& options) {
  fmt::print(
      "Reserved bytes over the largest live sum, and measured - predicted: reserved / live / "
      "mismatches.\n{:<20}{:>5}{:>8}{:>16}{:>8}{:>14}{:>8}{:>14}{:>8}{:>14}{:>8}{:>8}{:>8}\n",
      "model", "batch", "", "live bytes", "arena", "", "caching", "", "direct", "", "PyTorch",
      "trace s", "pack s");
  for (const std::string& model : options.models)
    for (int batch : options.batches)
      for (const std::string& optimizer : options.optimizers)
        report({model, model == "resnet20" ? 32 : options.size, batch, optimizer}, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  apps::App app("Predicted against measured memory of training runs.", "plan_bench");
  app.add_option("--models", options.models).may_repeat(',').shows_default();
  app.add_option("--batches", options.batches).may_repeat(',').shows_default();
  app.add_option("--optimizers", options.optimizers).may_repeat(',').shows_default();
  app.add_option("--size", options.size, "pixels; of resnet20 32").shows_default();
  app.add_option("--repeats", options.repeats, "plans made, for the median of their seconds");
  app.add_flag("--predict", options.predict, "make no real runs");
  return apps::run_program(app, argc, argv, [&] { report_all(options); });
}
