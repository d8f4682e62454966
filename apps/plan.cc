// Says what a training step will hold before there is a byte of it: how much of what, where the
// peak lies, which buffers are largest, what each planner would reserve, and whether a budget is
// enough. `plan --help` shows the flags.
#include "brim/base/parallel.h"
#include "brim/brim.h"
#include "brim/apps/support/algorithm_flags.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/data_notes.h"
#include "brim/apps/support/events.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/op_times_flag.h"
#include "brim/apps/support/plan_report.h"
#include "brim/apps/support/planned_device.h"
#include "brim/apps/support/program.h"
#include "brim/apps/support/recompute_curve.h"
#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"
#include "brim/apps/support/train_plan.h"
#include "brim/apps/support/train_weights.h"

namespace {

using namespace brim;
using namespace brim::apps;

constexpr const char* kExamples = R"(Examples:
  plan --model resnet50 --batch 32                 what a step holds, and of what
  plan --model resnet50 --batch 64 --budget 3GiB   exit code 2 where that is too little
  plan --model mobilenet_v2 --html step.html       the step drawn, for a browser
  plan --model resnet50 --recompute-curve curve.html   bytes against the time of recomputing
  plan --model resnet18 --optimizer adamw --effective-batch 256   in micro-steps of --batch
  plan --model resnet50 --device h100-80gb --batch auto --precision bf16   what a card would hold
  plan --model resnet50 --init half.safetensors    the same for a pruned model
  plan --model resnet20 --csv step.csv && pack step.csv
)";

void plan(TrainFlags flags, const PlanOutputs& outputs) {
  if (flags.data == "synthetic") flags.steps = 2;  // the first and the next: all are like these
  expect<ValueError>(flags.batch_text != kFastestBatch, "flags",
                     "plan runs no step and times none: give --batch a number, or auto");
  const StandInScope stand_in(take_planned_device(flags));
  check_flags(flags);
  check_outputs(outputs);
  if (flags.threads > 0) set_num_threads(flags.threads);
  Events events(outputs.json);
  set_algorithms(flags);
  TrainData data = open_data(flags);
  take_initial_sizes(flags, data);
  check_weight_flags(flags, data);
  set_op_times(flags);
  if (flags.device.is_cpu() && !flags.gpu && flags.budget == 0) flags.host = host_share(flags);
  choose_precision(flags, data, events);
  choose_batch(flags, data, events);
  const TrainFlags asked = flags;
  const std::optional<RecomputeChoice> recompute = choose_recompute(flags, data, events);
  PlanResult result = make_plan_result(flags, data);
  result.recompute = recompute;
  if (!outputs.json.empty()) complete(result, flags, asked, data);
  write_files(result, flags, outputs);
  if (!outputs.curve.empty()) draw_recompute_curve(outputs.curve, flags, data, recompute);
  events.write(plan_json(result, flags));
  events.open();
  if (!flags.quiet && !events.owns_stdout()) {
    for (const std::string& line : DataNotes(data).next()) fmt::print("{}\n", line);
    print_plan(result, flags, data);
    say_op_times(flags);
  }
  if (result.refusal) throw DoesNotFit{result.refusal->message};
}

}  // namespace

int main(int argc, char** argv) {
  App app("Says what a training step holds, before the first byte.", "plan");
  app.footer(kExamples);
  TrainFlags flags;
  flags.data = "synthetic";
  PlanOutputs outputs;
  add_model_flags(app, flags);
  app.add_option("--init", flags.init,
                 "safetensors file of the model that is planned for: a pruned one is smaller")
      .type_name("FILE")
      .check(file_name());
  app.get("--device").description("cpu, cuda:N, or a card that need not be here: " + card_names());
  add_output_flags(app, outputs);
  return run_program(app, argc, argv, [&] { plan(flags, outputs); });
}
