// A plan on disk with the trace that it was made from, for `--save-plan` and `--plan`, and with
// what was chosen to recompute and offload, and the engines that a GPU's convolutions are computed
// with, so that a run that takes the plan need not choose again. Plan and choice say which question
// they answer (`memory::Plan::identity`); another question needs others.
#pragma once

#include <optional>
#include <string>

#include "brim/brim.h"
#include "brim/apps/support/kept_choice.h"

namespace brim::apps {

/// Writes them as JSON, a line each, whole or not at all; `engines` is "" or two lines
/// (train/engine_file.h). Throws `FileError`.
void save_plan(const std::string& path, const RehearsedPlan& plan,
               const std::optional<KeptChoice>& choice, const std::string& engines = "");

/// What is in the file, without seconds. Throws `FileError` naming the file and what is wrong with
/// it: not a plan, cut short, of another version, the answer to another question than `identity`.
RehearsedPlan load_plan(const std::string& path, const std::string& identity);

/// The choice in the file; none where there is none, or that for another question. Throws
/// `FileError` where it is damaged.
std::optional<KeptChoice> load_choice(const std::string& path, const std::string& question);

/// The text of the engines in the file, unchecked; "" where there is none. Throws `FileError` where
/// it cannot be read.
std::string load_engines(const std::string& path);

}  // namespace brim::apps
