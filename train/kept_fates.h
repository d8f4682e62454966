// What becomes of the saved tensors of a step, as text: a letter for each result of each call
// (keep, recompute, make again and offload), for files that keep what was planned. Internal to
// them.
#pragma once

#include <string>
#include <vector>

#include "brim/autograd/planned_recomputation.h"

namespace brim {

std::vector<std::string> to_texts(const autograd::Fates& fates);
/// Throws `FileError` in the name of `tag` for a letter that is none.
autograd::Fates fates_from(const std::vector<std::string>& calls, const char* tag);

}  // namespace brim
