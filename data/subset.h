// A data set without some of the images of another: those that cannot be read, say
// (data/check_images.h). Classes and their labels stay, also where one is left without an image.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brim/data/dataset.h"

namespace brim::data {

class Subset : public Dataset {
 public:
  /// `dataset` without the images `left_out`. Throws `ValueError` for no data set, and for an image
  /// that it does not have.
  Subset(std::shared_ptr<const Dataset> dataset, const std::vector<int64_t>& left_out);

  int64_t size() const override { return static_cast<int64_t>(kept_.size()); }
  const std::vector<std::string>& class_names() const override { return dataset_->class_names(); }
  int64_t label(int64_t index) const override { return dataset_->label(of(index)); }
  Image read(int64_t index, int target) const override { return dataset_->read(of(index), target); }
  ImagePart read_part(int64_t index, int target, const ChooseBox& wanted) const override {
    return dataset_->read_part(of(index), target, wanted);
  }
  std::string describe(int64_t index) const override { return dataset_->describe(of(index)); }
  std::vector<std::string> notes(size_t first) const override { return dataset_->notes(first); }

 private:
  int64_t of(int64_t index) const;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<int64_t> kept_;
};

}  // namespace brim::data
