// Whether the images of a run are too small for its model: halved five times, 32 pixels are one,
// and what the last layers then know of a place is nothing. Found by running the model on the meta
// device. In a program of your own, look at `nn::summarize` (nn/summary.h).
#pragma once

#include <string>

#include "brim/apps/support/train_data.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

/// A warning with what to do, where the last convolution's maps are one pixel; else "".
std::string small_images_warning(const TrainFlags& flags, const TrainData& data);

}  // namespace brim::apps
