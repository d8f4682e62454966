#include "brim/apps/support/plan_report.h"

#include <fmt/format.h>

#include <set>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/base/stand_in.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/planned_device.h"
#include "brim/apps/support/recompute_curve.h"
#include "brim/io/atomic_file.h"
#include "brim/memory/plan/packing_csv.h"
#include "brim/memory/report/html.h"
#include "brim/memory/report/outliving.h"
#include "brim/memory/report/peak.h"
#include "brim/train/engine_file.h"
#include "brim/train/parts.h"

namespace brim::apps {
namespace {

constexpr const char* kTag = "plan";  // of errors
constexpr size_t kLargest = 10;       // buffers that are listed

std::string headline(const TrainFlags& flags) {
  std::string update = flags.effective_batch > flags.batch
                           ? fmt::format(", {} images an update", flags.effective_batch)
                           : "";
  const std::string where =
      flags.gpu ? flags.device_name : fmt::format("{} threads", num_threads());
  return fmt::format("{}, {}x{}, batch {}{}, {}, {}", flags.model, flags.size, flags.size,
                     flags.batch, update, flags.optimizer.name, where);
}

void print_categories(const memory::Peak& peak) {
  for (size_t i = 0; i < memory::kCategories; ++i)
    if (int64_t bytes = peak.by_category[i]; bytes > 0)
      fmt::print("  {:<14} {:>10}  {:>3.0f}%\n", memory::kCategoryNames[i], format_bytes(bytes),
                 100 * static_cast<double>(bytes) / static_cast<double>(peak.live));
  fmt::print("  {:<14} {:>10}\n", "live", format_bytes(peak.live));
}

void print_place(const memory::Trace& trace, const memory::Peak& peak) {
  std::string section =
      peak.section ? " in the " + to_string(trace.sections[*peak.section].section) : "";
  std::string op = peak.op ? ": " + to_string(trace.ops[*peak.op].origin) : "";
  fmt::print("\nthe peak lies{}{}\n", section, op);
}

void print_largest(const memory::Trace& trace, const memory::Peak& peak) {
  fmt::print("\nlargest buffers at the peak\n");
  for (size_t i = 0; i < std::min(kLargest, peak.buffers.size()); ++i) {
    const memory::TraceBuffer& buffer = trace.buffers[static_cast<size_t>(peak.buffers[i])];
    fmt::print("  {:>10}  {:<11}  {:<28}  {}\n", format_bytes(buffer.bytes),
               to_string(buffer.category), buffer.shape, to_string(buffer.origin));
  }
}

void print_sections(const memory::Plan& plan) {
  fmt::print("\nmost live bytes by section\n");
  std::set<memory::Section> seen;
  for (const memory::PlannedProgram& program : plan.programs)
    for (const memory::PlannedSection& part : program.sections)
      if (part.section.kind != memory::SectionKind::other && seen.insert(part.section).second)
        fmt::print("  {:<26} {:>10}\n", to_string(part.section),
                   part.requests.empty() ? "no more" : format_bytes(part.peak_live));
}

void print_planners(const PlanResult& result) {
  fmt::print("\nreserved bytes by planner\n");
  auto bound = static_cast<double>(result.training.plan->lower_bound);
  for (const auto& [name, memory] : result.planners)
    fmt::print("  {:<10} {:>10}  {:>15} bytes, {:.3f} of the most that is live\n", name,
               format_bytes(memory.peak_reserved), memory.peak_reserved,
               static_cast<double>(memory.peak_reserved) / bound);
}

}  // namespace

void add_output_flags(App& app, PlanOutputs& outputs) {
  app.add_option("--json", outputs.json,
                 "write the plan's numbers to this file, - for standard "
                 "output")
      .type_name("FILE")
      .check(file_name());
  app.add_option("--html", outputs.html, "draw the step and its arena: one page for a browser")
      .type_name("FILE")
      .check(file_name());
  app.add_option("--csv", outputs.csv, "write the lifetimes of all buffers, for pack")
      .type_name("FILE")
      .check(file_name());
  app.add_option("--recompute-curve", outputs.curve,
                 "draw bytes against the time of recomputing: .html for a browser, .svg the "
                 "picture alone")
      .type_name("FILE")
      .check(file_name());
}

void check_outputs(const PlanOutputs& outputs) {
  for (const std::string& path : {outputs.html, outputs.csv})
    if (!path.empty()) io::check_writable(path, kTag);
  if (!outputs.curve.empty()) check_curve_file(outputs.curve);
}

PlanResult make_plan_result(const TrainFlags& flags, const TrainData& data) {
  TrainFlags asked = flags;
  PlanResult result;
  for (const char* planner : {"arena", "caching", "direct"}) {
    asked.planner = planner;
    MemoryPlan plan = predict_memory(asked, data, flags.batch);
    result.planners[planner] = plan.predicted;
    if (plan.training.plan) result.training = std::move(plan.training);
  }
  result.relative_time = relative_time(flags, data);
  const StepMemory& need = result.planners.at(flags.planner);
  const bool fits = need.peak_reserved <= flags.limit();
  if (flags.budget > 0 || !fits) result.ladder = climb_ladder(flags, data);
  if (!fits) result.refusal = refusal_of(flags, data, need, *result.ladder);
  return result;
}

void complete(PlanResult& result, const TrainFlags& flags, const TrainFlags& asked,
              const TrainData& data) {
  result.made = made_again(rehearsal_of(flags, data, flags.batch));
  result.least = result.refusal ? result.refusal->least : least_bytes(asked, data);
}

void write_files(const PlanResult& result, const TrainFlags& flags, const PlanOutputs& outputs) {
  const auto& [trace, plan, predicted, trace_seconds, pack_seconds] = result.training;
  if (!outputs.csv.empty())
    io::write_file(outputs.csv, memory::format_packing_csv(memory::packing_rows(trace)), kTag);
  if (outputs.html.empty()) return;
  io::write_file(outputs.html,
                 memory::html_page(trace, {.title = "Memory of a training step",
                                           .subtitle = {headline(flags)},
                                           .offsets = memory::offsets_in(*plan, trace),
                                           .arena_bytes = plan->arena_bytes,
                                           .budget = flags.budget,
                                           .predicted_peak_live = predicted.peak_live,
                                           .predicted_peak_reserved = predicted.peak_reserved}),
                 kTag);
}

namespace {

bool is_bound(const TrainFlags& flags) { return flags.gpu && flags.gpu->card != nullptr; }

/// Whether cuDNN was asked about the card that is planned for.
bool engines_are_known() { return !stand_in().is_here && !engine_kind(stand_in().device).empty(); }

void print_gpu(const TrainFlags& flags) {
  if (!flags.gpu) return;
  if (!flags.gpu->use.empty()) {
    fmt::print("{}: {}\n", flags.device_name, flags.gpu->use);
    return;
  }
  fmt::print("{} has {}", flags.device_name, format_bytes(flags.gpu->bytes));
  if (flags.gpu->context > 0)
    fmt::print(", of which its runtime takes about {} for itself",
               format_bytes(flags.gpu->context));
  if (is_bound(flags))
    fmt::print(
        "\na bound, for the card is not here: {} counted with the most scratch that they may "
        "take{}",
        engines_are_known() ? "matrix products are" : "convolutions and matrix products are",
        engines_are_known() ? ", convolutions with what the cuDNN that is here says of its "
                              "engines on such a card"
                            : "");
  fmt::print("\n");
}

Json ladder_json(const LadderResult& ladder) {
  Json rungs = Json::array();
  for (size_t i = 0; i < ladder.considered.size(); ++i) {
    const Rung& rung = ladder.considered[i];
    rungs.push_back({{"remedies", rung.remedies},
                     {"predicted_peak_bytes", rung.memory.peak_reserved},
                     {"relative_time", rung.relative_time},
                     {"changes_numbers", rung.changes_numbers},
                     {"fits", rung.fits},
                     {"chosen", i == ladder.chosen}});
  }
  return rungs;
}

}  // namespace

Json plan_json(const PlanResult& result, const TrainFlags& flags) {
  const memory::Plan& plan = *result.training.plan;
  Json categories = Json::object(), planners = Json::object();
  for (size_t i = 0; i < memory::kCategories; ++i)
    categories[std::string(memory::kCategoryNames[i])] = result.training.predicted.at_peak[i];
  for (const auto& [name, memory] : result.planners) planners[name] = memory.peak_reserved;
  Json json{{"batch", flags.batch},
            {"micro_batches", count_parts(flags.update_images(), flags.batch)},
            {"effective_batch", flags.update_images()},
            {"predicted_peak_bytes", result.planners.at(flags.planner).peak_reserved},
            {"lower_bound_bytes", plan.lower_bound},
            {"arena_bytes", plan.arena_bytes},
            {"gap", plan.gap()},
            {"categories", categories},
            {"planners", planners},
            {"trace_seconds", result.training.trace_seconds},
            {"pack_seconds", result.training.pack_seconds},
            {"relative_time", result.relative_time},
            {"recompute_seconds_predicted", result.made.seconds},
            {"dropped", result.made.values},
            {"offloaded", 0},
            {"offloaded_bytes", 0},
            {"solve_seconds", 0.0},
            {"least_possible_bytes", result.least},
            {"prediction", is_bound(flags) ? "bound" : "exact"}};
  if (flags.gpu) {
    json["device"] = flags.device_name;
    json["device_bytes"] = flags.gpu->bytes;
  }
  json["context_bytes"] = context_bytes(flags);
  if (result.recompute) {
    const RecomputeChoice& choice = *result.recompute;
    const double kept = choice.plan.seconds - choice.plan.extra_seconds;
    json["relative_time_bound"] = 1 + choice.plan.bound_seconds / kept;
    json["offloaded"] = choice.offloaded;
    json["offloaded_bytes"] = choice.plan.host_peak;
    json["solve_seconds"] = choice.seconds;
  }
  if (result.ladder) json["ladder"] = ladder_json(*result.ladder);
  if (result.refusal) json["fits"] = result.refusal->fits;
  return json;
}

void print_plan(const PlanResult& result, const TrainFlags& flags, const TrainData& data) {
  const memory::Trace& trace = result.training.trace;
  memory::Peak peak = memory::peak_of(trace);
  fmt::print("{}, {} classes: what a training step holds at its peak\n\n", headline(flags),
             data.classes);
  print_categories(peak);
  print_place(trace, peak);
  print_largest(trace, peak);
  print_sections(*result.training.plan);
  fmt::print("\nheld past the last use\n{}",
             memory::to_string(memory::find_outliving(trace), trace));
  print_planners(result);
  fmt::print("\ntraced in {:.2f} s, packed in {:.2f} s\n", result.training.trace_seconds,
             result.training.pack_seconds);
  print_gpu(flags);
  if (flags.host) fmt::print("{}\n", to_string(*flags.host));
  if (result.ladder)
    fmt::print("\nwhat could be changed, for {}\n{}", format_bytes(flags.limit()),
               to_table(*result.ladder));
  int64_t spare = flags.limit() - result.planners.at(flags.planner).peak_reserved;
  if (flags.budget > 0 && spare >= 0)
    fmt::print("fits the budget of {}, {} to spare\n", format_bytes(flags.budget),
               format_bytes(spare));
}

}  // namespace brim::apps
