#include "brim/apps/support/kept_choice.h"

#include <cmath>
#include <iostream>

#include "brim/apps/support/events.h"
#include "brim/apps/support/output.h"
#include "brim/apps/support/plan_file.h"
#include "brim/apps/support/run_identity.h"
#include "brim/apps/support/train_plan.h"
#include "brim/base/json_text.h"
#include "brim/train/kept_fates.h"

namespace brim::apps {
namespace {

constexpr const char* kTag = "plan";
KeptChoice choice_from(const Json& json) {
  KeptChoice choice{.question = json.at("question"),
                    .dropped = json.at("dropped"),
                    .offloaded = json.at("offloaded")};
  const std::string name = json.at("name");
  const double wait_seconds = name.empty() ? 0.0 : json.at("wait_seconds").get<double>();
  expect<FileError>(choice.dropped >= 0 && choice.offloaded >= 0 && wait_seconds >= 0 &&
                        std::isfinite(wait_seconds),
                    kTag, "what is recomputed is damaged: {} dropped, {} offloaded, {} s of waits",
                    choice.dropped, choice.offloaded, wait_seconds);
  if (name.empty()) return choice;
  choice.recompute = planned_recomputation(
      std::make_shared<autograd::Fates>(fates_from(json.at("fates"), kTag)), wait_seconds);
  expect<FileError>(choice.recompute.name == name, kTag,
                    "what is recomputed is damaged: it says {}, and is {}", name,
                    choice.recompute.name);
  return choice;
}

/// What `choose_recomputation` is asked.
std::string question_of(const TrainFlags& flags, const TrainData& data) {
  RehearsalOptions asked = rehearsal_of(flags, data, flags.batch);
  asked.trainer.recompute.name = fmt::format("{} or within {} bytes, drop {}, offload {}",
                                             flags.recompute_text == "off" ? "off" : "free",
                                             flags.limit(), flags.may_drop(), flags.offloads());
  return bytes_identity(flags, data, asked);
}

}  // namespace

std::string to_text(const KeptChoice& choice) {
  const Json calls =
      choice.recompute.fates ? Json(to_texts(*choice.recompute.fates)) : Json::array();
  return json_text(Json{{"question", choice.question},
                        {"name", choice.recompute.fates ? choice.recompute.name : ""},
                        {"fates", calls},
                        {"dropped", choice.dropped},
                        {"offloaded", choice.offloaded},
                        {"wait_seconds", choice.recompute.wait_seconds}});
}

std::optional<KeptChoice> kept_choice_from(std::string_view text, const std::string& question) {
  try {
    const Json json = Json::parse(text);
    if (json.at("question") != escaped_utf8(question)) return {};
    return choice_from(json);
  } catch (const Json::exception& error) {
    raise<FileError>(kTag, "what is recomputed is damaged: {}", error.what());
  }
}

std::optional<KeptChoice> choice_to_keep(const TrainFlags& flags, const TrainData& data) {
  if (!flags.plans_recompute()) return {};
  return KeptChoice{question_of(flags, data), flags.recompute, flags.dropped, flags.offloaded};
}

bool take_kept_choice(TrainFlags& flags, const TrainData& data) {
  if (flags.plan.empty()) return false;
  try {
    std::optional<KeptChoice> kept = load_choice(flags.plan, question_of(flags, data));
    if (!kept) return false;
    if (kept->recompute.fates) flags.recompute = std::move(kept->recompute);
    flags.dropped = kept->dropped;
    flags.offloaded = kept->offloaded;
    return true;
  } catch (const FileError& error) {
    // Of a file that is no plan at all it is said when the plan is taken.
    if (!flags.quiet) std::cerr << shown(error.what()) << "; planned again" << std::endl;
    return false;
  }
}

}  // namespace brim::apps
