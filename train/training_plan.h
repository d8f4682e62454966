// A training run traced and planned before the first byte: where each buffer will be, and what the
// run will hold. Run it under `memory::arena_planner(plan)`. What is predicted is what a second
// rehearsal under the plan held, and so what the run will hold, to the byte. To know the bytes
// of another planner use `measure_on_meta` (step_memory.h).
#pragma once

#include <functional>
#include <memory>

#include "brim/memory/plan/plan.h"
#include "brim/memory/trace.h"
#include "brim/train/step_memory.h"

namespace brim {

struct TrainingPlan {
  memory::Trace trace;
  std::shared_ptr<const memory::Plan> plan;
  StepMemory predicted;
  double trace_seconds = 0, pack_seconds = 0;
};

/// What `program` asks for, whatever the planner.
memory::Trace trace_on_meta(const MetaProgram& program);

/// `program` as of `measure_on_meta`.
TrainingPlan plan_on_meta(const MetaProgram& program, const memory::PlanOptions& options = {});

/// What a run under the plan will hold.
StepMemory memory_of(const memory::Plan& plan);

}  // namespace brim
