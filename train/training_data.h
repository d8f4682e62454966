// What a training runs over.
#pragma once

#include "brim/train/batch_source.h"

namespace brim {

struct TrainingData {
  BatchSource& training;
  data::Loader* validation = nullptr;  ///< evaluated after each epoch; null for no evaluation
};

}  // namespace brim
