// What `plan` tells of a planned training: a table for people, one JSON object for programs, a page
// for a browser, and the packing problem as CSV. In a program of your own read the trace and the
// plan of `plan_on_meta` (train/rehearsed_plan.h), `memory::peak_of` and `memory::html_page`.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "brim/apps/support/app.h"
#include "brim/apps/support/refusal.h"
#include "brim/apps/support/train_plan.h"
#include "brim/train/made_again.h"

namespace brim::apps {

struct PlanOutputs {
  std::string json, html, csv, curve;  ///< files; "" for none
};

/// Declares the flags; `outputs` must outlive the parsing.
void add_output_flags(App& app, PlanOutputs& outputs);
/// Before anything that takes long: whether the files can be written. Throws `FileError`.
void check_outputs(const PlanOutputs& outputs);

struct PlanResult {
  RehearsedPlan training;
  std::map<std::string, StepMemory> planners;  ///< what a run under each would hold
  std::optional<LadderResult> ladder;          ///< where the flags have a budget
  double relative_time = 1;                    ///< predicted, of everything kept
  std::optional<RecomputeChoice> recompute;    ///< where some was planned
  MadeAgain made;                              ///< by the run that the flags come to
  int64_t least = 0;                           ///< bytes, `least_bytes`
  std::optional<Refusal> refusal;  ///< where the planner of the flags is above the limit
};

/// Plans for the arena, whatever planner the flags name, and asks all planners.
PlanResult make_plan_result(const TrainFlags& flags, const TrainData& data);

/// Completes what only the JSON says, and what takes a while. `asked`: the flags before
/// `choose_recompute`.
void complete(PlanResult& result, const TrainFlags& flags, const TrainFlags& asked,
              const TrainData& data);

void write_files(const PlanResult& result, const TrainFlags& flags, const PlanOutputs& outputs);
Json plan_json(const PlanResult& result, const TrainFlags& flags);
/// The table, on standard output.
void print_plan(const PlanResult& result, const TrainFlags& flags, const TrainData& data);

}  // namespace brim::apps
