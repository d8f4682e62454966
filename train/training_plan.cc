#include "brim/train/training_plan.h"

#include <chrono>

#include "brim/autograd/trace_recorder.h"
#include "brim/memory/arena_planner.h"

namespace brim {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

memory::Trace trace_on_meta(const MetaProgram& program) {
  auto account = std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(), memory::planner_named("direct"));
  memory::AccountScope scope(account);
  autograd::TraceRecorder recorder(account);
  program([] {});
  return recorder.take();
}

}  // namespace

TrainingPlan plan_on_meta(const MetaProgram& program, const memory::PlanOptions& options) {
  TrainingPlan result;
  auto start = std::chrono::steady_clock::now();
  result.trace = trace_on_meta(program);
  result.trace_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  result.plan = std::make_shared<memory::Plan>(memory::make_plan(result.trace, options));
  result.pack_seconds = seconds_since(start);
  result.predicted = measure_on_meta(memory::arena_planner(result.plan), program);
  return result;
}

}  // namespace brim
