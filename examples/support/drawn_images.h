// Some of the images to validate, the same each time, for who asks for many accuracies that only
// compare. They are drawn: a data set may have them class by class.
#pragma once

#include "brim/examples/support/train_data.h"

namespace brim::examples {

class DrawnImages {
 public:
  /// `data` has its loaders, and images to validate.
  DrawnImages(const TrainData& data, int64_t most);
  /// Top-1, from 0 to 1.
  double accuracy(nn::Module& model);

 private:
  InputOptions input_;
  int64_t most_;
  data::Loader loader_;
};

}  // namespace brim::examples
