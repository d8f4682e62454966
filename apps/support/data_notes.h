// What a person should know of the data of a run, once each: files that were passed over, classes
// without images, images that were left out or skipped. A program asks for what is new whenever it
// has the chance to say it.
#pragma once

#include <string>
#include <vector>

#include "brim/apps/support/train_data.h"

namespace brim::apps {

class DataNotes {
 public:
  /// `data` must outlive it.
  explicit DataNotes(const TrainData& data) : data_(data) {}

  /// Lines that were not given before.
  std::vector<std::string> next();

 private:
  const TrainData& data_;
  size_t left_out_ = 0, train_ = 0, val_ = 0, skipped_train_ = 0, skipped_val_ = 0;  // given
};

/// Images that were left out beforehand, or skipped since.
int64_t skipped_images(const TrainData& data);

}  // namespace brim::apps
