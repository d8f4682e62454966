// A training run traced and planned before the first byte: where each buffer will be, and what the
// run will hold. Run it under `memory::arena_planner(plan)`. What is predicted is what a second
// rehearsal under the plan held, and so what the run will hold, to the byte. For the bytes of
// another planner there is `plan_under`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "brim/memory/plan/plan.h"
#include "brim/memory/trace.h"
#include "brim/train/step_memory.h"

namespace brim {

struct RehearsedPlan {
  // Empty for a planner without a plan, but for what is predicted.
  memory::Trace trace;
  std::shared_ptr<const memory::Plan> plan;
  StepMemory predicted;
  double trace_seconds = 0, pack_seconds = 0;
};

/// What `program` asks for, whatever the planner.
memory::Trace trace_on_meta(const MetaProgram& program);

/// `program` as of `measure_on_meta`. `threads` of the options is not read: a plan for the CPU is
/// for those that kernels have now, one for a GPU for none.
RehearsedPlan plan_on_meta(const MetaProgram& program, const memory::PlanOptions& options = {});

struct PlanUnderOptions {
  std::string identity = {};  ///< of the plan
  /// Of the device; matters to other planners than the arena, as `MeasureOptions::capacity` does.
  int64_t capacity = memory::Source::kUnlimited;
};

/// What `program` will hold under the planner of that name: for "arena" `plan_on_meta`, for
/// "caching" and "direct" `predicted` alone, and where they run out of the capacity what they would
/// hold without a limit. Throws `ValueError` for other names.
RehearsedPlan plan_under(const std::string& planner, const MetaProgram& program,
                         const PlanUnderOptions& options = {});

/// What a run under the plan will hold.
StepMemory memory_of(const memory::Plan& plan);

}  // namespace brim
