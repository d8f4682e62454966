// Which residual blocks a trained model misses least: one after the other, the one without which
// the accuracy is best, with those before it gone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brim/apps/support/prune_flags.h"
#include "brim/apps/support/train_data.h"

namespace brim::apps {

/// Names of `flags.remove_blocks` of them. `make_model` gives the trained model, a new one each
/// time; `say` is told of each that is chosen. Throws `ValueError` where there are fewer, or the
/// data has no images to validate.
std::vector<std::string> choose_blocks(
    const PruneFlags& flags, const TrainData& data,
    const std::function<std::unique_ptr<nn::Module>()>& make_model,
    const std::function<void(const std::string&)>& say);

}  // namespace brim::apps
