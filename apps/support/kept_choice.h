// What a budget asked to recompute and offload, kept beside the plan of `--save-plan`, so that a
// run which takes that plan (`--plan`) has the same tensors dropped, whatever the speed of the
// machine is by then. It says which question it answers; another question is planned for anew. The
// file is that of plan_file.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

struct KeptChoice {
  std::string question;        ///< that it answers
  RecomputeOptions recompute;  ///< planned; without fates where nothing was asked
  int64_t dropped = 0, offloaded = 0;
};

/// One line of JSON.
std::string to_text(const KeptChoice& choice);
/// What is in `text`, or nothing where it answers another question. Throws `FileError` where it is
/// damaged.
std::optional<KeptChoice> kept_choice_from(std::string_view text, const std::string& question);

/// What is chosen by the flags, to be kept; nothing where they leave no choice.
std::optional<KeptChoice> choice_to_keep(const TrainFlags& flags, const TrainData& data);

/// Takes the choice in the file of `--plan` into the flags, where it is for the same question. What
/// is wrong with the file is said when the plan itself is taken.
bool take_kept_choice(TrainFlags& flags, const TrainData& data);

}  // namespace brim::apps
