// A data set whose images stay in host memory once they were read, decoded: small pictures, read
// epoch after epoch, cost more to open and decode than to prepare. Which are kept changes no image.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brim/data/dataset.h"

namespace brim::data {

class ImageCache : public Dataset {
 public:
  /// Keeps all images of `dataset`, or none: none where the first that is read says that all, if
  /// they are as large, have more than `max_bytes` bytes. Where others turn out larger, those up to
  /// the first without room. Beside the pixels that takes some 60 bytes an image. Throws
  /// `ValueError` for no data set and for bytes below 0.
  ImageCache(std::shared_ptr<const Dataset> dataset, int64_t max_bytes);
  ~ImageCache() override;

  int64_t size() const override { return dataset_->size(); }
  const std::vector<std::string>& class_names() const override { return dataset_->class_names(); }
  int64_t label(int64_t index) const override { return dataset_->label(index); }
  std::string describe(int64_t index) const override { return dataset_->describe(index); }
  std::vector<std::string> notes(size_t first) const override { return dataset_->notes(first); }
  /// Throws what the data set throws, each time: what cannot be read is not kept.
  Image read(int64_t index, int target) const override;
  ImagePart read_part(int64_t index, int target, const ChooseBox& wanted) const override;

  /// Of the pixels that are kept now.
  int64_t bytes() const { return bytes_; }

 private:
  struct Kept {
    Image image;
    int target;
  };
  enum class Choice { open, keep, leave };

  bool keeps() const { return choice_ != Choice::leave; }
  /// As `read` gave it for this target; null where it is not kept.
  const Image* find(int64_t index, int target) const;
  void keep(int64_t index, const Image& image, int target) const;

  std::shared_ptr<const Dataset> dataset_;
  int64_t max_bytes_;
  mutable std::atomic<Choice> choice_ = Choice::open;
  mutable std::atomic<int64_t> bytes_ = 0;
  mutable std::vector<std::atomic<const Kept*>> kept_;
};

}  // namespace brim::data
