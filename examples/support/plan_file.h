// A plan on disk with the trace that it was made from, for `--save-plan` and `--plan`. The plan
// says which question it answers (`memory::Plan::identity`); another question needs another plan.
#pragma once

#include <memory>
#include <string>

#include "brim/brim.h"

namespace brim::examples {

/// Writes both as one JSON object, whole or not at all. Throws `FileError`.
void save_plan(const std::string& path, const TrainingPlan& plan);

/// The plan in the file. Throws `FileError` naming the file and what is wrong with it: not a plan,
/// cut short, of another version, the answer to another question than `identity`.
std::shared_ptr<const memory::Plan> load_plan(const std::string& path, const std::string& identity);

}  // namespace brim::examples
