// Some of the images to validate, the same each time, for who asks for many accuracies that only
// compare. They are drawn: a data set may have them class by class.
#pragma once

#include "brim/apps/support/train_data.h"

namespace brim::apps {

class DrawnImages {
 public:
  /// `data` has its loaders, and images to validate. Whole batches are taken until there are
  /// `wanted`, or all.
  DrawnImages(const TrainData& data, int64_t wanted);
  /// Top-1, from 0 to 1.
  double accuracy(nn::Module& model);
  /// Images that the last accuracy is of.
  int64_t count() const { return count_; }

 private:
  InputOptions input_;
  int64_t wanted_, count_ = 0;
  data::Loader loader_;
};

}  // namespace brim::apps
