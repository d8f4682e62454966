// A plan on disk with the trace that it was made from, for `--save-plan` and `--plan`. The plan
// says which question it answers (`memory::Plan::identity`); another question needs another plan.
#pragma once

#include <string>

#include "brim/brim.h"

namespace brim::examples {

/// Writes both as JSON, a line each, whole or not at all. Throws `FileError`.
void save_plan(const std::string& path, const TrainingPlan& plan);

/// What is in the file, without seconds. Throws `FileError` naming the file and what is wrong with
/// it: not a plan, cut short, of another version, the answer to another question than `identity`.
TrainingPlan load_plan(const std::string& path, const std::string& identity);

}  // namespace brim::examples
