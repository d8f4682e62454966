// `plan --recompute-curve FILE`: bytes against extra time of the training of the flags, from
// keeping everything to the least possible. FILE.html is a page for a browser, FILE.svg the picture
// alone. In a program of your own use `recompute_curve` (train/recompute_curve.h) and
// `memory::recompute_page`.
#pragma once

#include <optional>
#include <string>

#include "brim/apps/support/train_plan.h"

namespace brim::apps {

/// Before anything that takes long. Throws `ValueError` for an ending that is neither, `FileError`
/// where the file cannot be written.
void check_curve_file(const std::string& path);

/// `chosen`: what was planned for the budget of the flags, which is marked.
void draw_recompute_curve(const std::string& path, const TrainFlags& flags, const TrainData& data,
                          const std::optional<RecomputeChoice>& chosen);

}  // namespace brim::apps
