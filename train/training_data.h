// What a training runs over: the images that it learns from, and those that it is judged by. Both
// are the caller's, and outlive the `Trainer` that gets them. For images of your own derive a
// `BatchSource` (train/batch_source.h).
#pragma once

#include "brim/train/batch_source.h"

namespace brim {

struct TrainingData {
  BatchSource& training;
  data::Loader* validation = nullptr;  ///< evaluated after each epoch; null for no evaluation
};

}  // namespace brim
