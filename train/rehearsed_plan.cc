#include "brim/train/rehearsed_plan.h"

#include <chrono>

#include "brim/autograd/trace_recorder.h"
#include "brim/base/parallel.h"
#include "brim/base/stand_in.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/out_of_memory.h"

namespace brim {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

memory::PlanOptions with_threads_of_device(memory::PlanOptions options) {
  options.threads = stand_in().device.is_cpu() ? num_threads() : 1;
  return options;
}

}  // namespace

memory::Trace trace_on_meta(const MetaProgram& program) {
  memory::Trace trace;
  measure_on_meta(memory::planner_named("direct"), [&](const auto& state_is_held) {
    autograd::TraceRecorder recorder(memory::account(Device::meta()));
    program(state_is_held);
    trace = recorder.take();
  });
  return trace;
}

RehearsedPlan plan_on_meta(const MetaProgram& program, const memory::PlanOptions& options) {
  RehearsedPlan result;
  auto start = std::chrono::steady_clock::now();
  result.trace = trace_on_meta(program);
  result.trace_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  result.plan = std::make_shared<memory::Plan>(
      memory::make_plan(result.trace, with_threads_of_device(options)));
  result.pack_seconds = seconds_since(start);
  result.predicted = measure_on_meta(memory::arena_planner(result.plan), program);
  return result;
}

RehearsedPlan plan_under(const std::string& planner, const MetaProgram& program,
                         const PlanUnderOptions& options) {
  if (planner == "arena") return plan_on_meta(program, {.identity = options.identity});
  const memory::MakePlanner make = memory::planner_named(planner);
  RehearsedPlan result;
  try {
    result.predicted = measure_on_meta(make, program, {.capacity = options.capacity});
  } catch (const memory::OutOfMemory&) {
    result.predicted = measure_on_meta(make, program);
  }
  return result;
}

StepMemory memory_of(const memory::Plan& plan) {
  return {.peak_reserved = plan.arena_bytes,
          .peak_live = plan.lower_bound,
          .state = plan.kept_bytes,
          .at_peak = plan.at_peak};
}

}  // namespace brim
