// A `TrainingPlan` in a file: the question, what was considered, what was chosen, and where each
// buffer lies. The recipe is code, and stays with who wrote it.
#include <fmt/format.h>

#include "brim/budget/plan_training.h"
#include "brim/budget/recipe_rehearsal.h"
#include "brim/data/read_file.h"
#include "brim/io/atomic_file.h"
#include "brim/io/kept_json.h"
#include "brim/memory/arena_planner.h"
#include "brim/memory/plan/plan_json.h"
#include "brim/train/kept_fates.h"
#include "brim/train/low_memory.h"

namespace brim {
namespace {

using Json = nlohmann::json;

constexpr KeptJson kKept{.tag = "training plan", .what = "training plan", .version = 1};
constexpr int64_t kLargest = int64_t{1} << 30;  // bytes of a file

Dtype dtype_from(const std::string& name) {
  for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16})
    if (name == to_string(dtype)) return dtype;
  kKept.refuse("it is damaged: it is computed in '{}'", name);
}

Json json_of(const StepMemory& memory) {
  return {{"reserved", memory.peak_reserved},
          {"live", memory.peak_live},
          {"state", memory.state},
          {"at_peak", memory.at_peak},
          {"host_reserved", memory.host_peak_reserved},
          {"host_live", memory.host_peak_live}};
}

StepMemory memory_from(const Json& json) {
  return {.peak_reserved = json.at("reserved"),
          .peak_live = json.at("live"),
          .state = json.at("state"),
          .at_peak = json.at("at_peak").get<memory::BytesByCategory>(),
          .host_peak_reserved = json.at("host_reserved"),
          .host_peak_live = json.at("host_live")};
}

Json json_of(const LadderResult& ladder) {
  Json considered = Json::array(), not_offered = Json::array();
  for (const Rung& rung : ladder.considered)
    considered.push_back({{"remedies", rung.remedies},
                          {"names", rung.names},
                          {"memory", json_of(rung.memory)},
                          {"time", rung.relative_time},
                          {"changes_numbers", rung.changes_numbers},
                          {"fits", rung.fits}});
  for (const NotOffered& one : ladder.not_offered) not_offered.push_back({one.name, one.why});
  return {{"considered", considered}, {"not_offered", not_offered}, {"chosen", *ladder.chosen}};
}

Rung rung_from(const Json& json) {
  Rung rung;
  rung.remedies = json.at("remedies").get<std::vector<std::string>>();
  rung.names = json.at("names").get<std::vector<std::string>>();
  rung.memory = memory_from(json.at("memory"));
  rung.relative_time = json.at("time").get<double>();
  rung.changes_numbers = json.at("changes_numbers").get<bool>();
  rung.fits = json.at("fits").get<bool>();
  return rung;
}

LadderResult ladder_from(const Json& json, int64_t limit) {
  LadderResult ladder;
  ladder.limit = limit;
  ladder.chosen = json.at("chosen").get<size_t>();
  for (const Json& rung : json.at("considered")) ladder.considered.push_back(rung_from(rung));
  for (const Json& one : json.at("not_offered"))
    ladder.not_offered.push_back({one.at(0).get<std::string>(), one.at(1).get<std::string>()});
  if (*ladder.chosen >= ladder.considered.size()) kKept.refuse("it is damaged: nothing is chosen");
  return ladder;
}

/// What was chosen, as far as it differs from what the recipe and the budget say.
Json json_of(const RehearsalOptions& chosen) {
  const TrainerOptions& trainer = chosen.trainer;
  Json json{{"micro_batch", chosen.batch},
            {"precision", to_string(trainer.precision)},
            {"gradients", to_string(trainer.gradients)},
            {"parameters", to_string(chosen.parameters)},
            {"low_state", kept_types(chosen).low_state.value_or(false)},
            {"fused_update", trainer.fused_update}};
  if (trainer.recompute.fates) {
    json["fates"] = to_texts(*trainer.recompute.fates);
    json["wait_seconds"] = trainer.recompute.wait_seconds;
  }
  return json;
}

RehearsalOptions with_choice(RehearsalOptions training, const Json& json) {
  training.batch = json.at("micro_batch");
  if (training.batch < 1 || training.batch > training.effective_batch)
    kKept.refuse("it is damaged: {} examples at once", training.batch);
  training.trainer.precision = dtype_from(json.at("precision"));
  training.trainer.gradients = dtype_from(json.at("gradients"));
  training.parameters = dtype_from(json.at("parameters"));
  training.trainer.fused_update = json.at("fused_update");
  if (json.at("low_state").get<bool>() && kept_types(training).low_state == false)
    training = with_low_state(std::move(training));
  if (json.contains("fates"))
    training.trainer.recompute = planned_recomputation(
        std::make_shared<autograd::Fates>(fates_from(json.at("fates"), kKept.tag)),
        json.at("wait_seconds"));
  return training;
}

/// The plan holds what the recipe asks for now.
void require_same_steps(const RehearsalOptions& training,
                        const std::shared_ptr<const memory::Plan>& plan,
                        const StepMemory& predicted) {
  int64_t strays = 0;
  const StepMemory now =
      measure_on_meta(memory::arena_planner(plan), [&](const std::function<void()>& state_is_held) {
        rehearse(training, state_is_held);
        strays = memory::account(Device::meta())->stats().mismatches;
      });
  if (strays > 0 || now.peak_reserved != predicted.peak_reserved ||
      now.peak_live != predicted.peak_live)
    kKept.refuse(
        "its batch, loss or optimizer is another one: a step holds {} bytes now, and {} when it "
        "was "
        "planned",
        now.peak_live, predicted.peak_live);
}

}  // namespace

void TrainingPlan::save(const std::string& path) const {
  expect<ValueError>(fits(), kKept.tag, "the training does not fit: {}", why_not());
  const Json body{{"bytes", budget_.bytes},
                  {"batch", budget_.batch},
                  {"micro_batch", budget_.micro_batch},
                  {"tensors", tensors_},
                  {"ladder", json_of(ladder_)},
                  {"choice", json_of(rung().setup.rehearsal)},
                  {"plan", memory::to_json(*plan_)}};
  io::write_file(path, kKept.to_text(body), kKept.tag);
}

TrainingPlan load_training_plan(Recipe recipe, const std::string& path) {
  const std::vector<uint8_t> bytes = data::read_file(path, kLargest);
  try {
    const Json body = kKept.body_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    TrainingPlan plan;
    plan.recipe_ = std::make_shared<const Recipe>(std::move(recipe));
    plan.budget_ = {.bytes = body.at("bytes"),
                    .batch = body.at("batch"),
                    .micro_batch = body.at("micro_batch")};
    plan.ladder_ = ladder_from(body.at("ladder"), plan.budget_.bytes);
    plan.tensors_ = body.at("tensors").get<std::vector<std::string>>();
    // Of the other lines their numbers were kept, and not how they are run.
    RehearsalOptions& training = plan.ladder_.considered[*plan.ladder_.chosen].setup.rehearsal;
    training = with_choice(rehearsal_of(plan.recipe_, plan.budget_), body.at("choice"));
    const std::string difference =
        first_difference(plan.tensors_, tensors_of(*model_on_meta(training)));
    if (!difference.empty()) kKept.refuse("it is for another model: {}", difference);
    plan.plan_ = std::make_shared<memory::Plan>(
        memory::plan_from_json(body.at("plan").get<std::string>(), plan_identity(training)));
    require_same_steps(training, plan.plan_, plan.predicted());
    return plan;
  } catch (const FileError& error) {
    raise<FileError>(kKept.tag, "'{}': {}", path, error.what());
  } catch (const Json::exception& error) {
    raise<FileError>(kKept.tag, "'{}': it is damaged: {}", path, error.what());
  }
}

}  // namespace brim
