// What a loader reads from: a numbered set of images with a class each. Implementations here:
// `ImageFolder`, `Cifar`, `Idx` (files), `Shapes` (drawn), and `ImageCache`, which keeps another's
// images in memory. To add one, implement the five functions without a body. To have one chosen by
// what is in a folder, use `open_dataset` (data/open_dataset.h).
//
// All functions are const and are called by many loader threads at once; they must not use
// OpenMP. The same index always gives the same image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "brim/data/image.h"

namespace brim::data {

class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Number of images.
  virtual int64_t size() const = 0;
  /// One name a class, in the order of the labels.
  virtual const std::vector<std::string>& class_names() const = 0;
  int64_t classes() const { return static_cast<int64_t>(class_names().size()); }

  /// The class of image `index`, in [0, classes()); index in [0, size()).
  virtual int64_t label(int64_t index) const = 0;
  /// Image `index`. `target` is `DecodeOptions::target`: a hint of the shorter side that is
  /// enough, 0 for full size. Throws `FileError` naming the file when it cannot be had.
  virtual Image read(int64_t index, int target) const = 0;
  /// Of that image at least the part that `wanted` names, told the size that `read` would give;
  /// for datasets whose parts cost less than the whole.
  virtual ImagePart read_part(int64_t index, int target, const ChooseBox& /*wanted*/) const {
    return whole(read(index, target));
  }
  /// What a person calls image `index`: its path.
  virtual std::string describe(int64_t index) const = 0;
  /// What a person should know of it though it can be used, from the `first` note on: files that
  /// were passed over, classes without an image; images with a fault that were read since.
  virtual std::vector<std::string> notes(size_t /*first*/) const { return {}; }
};

/// "2 of 10 classes have no image: 'cat', 'dog'", the first few by name; "" where each has one.
std::string classes_without_images(const Dataset& dataset);

}  // namespace brim::data
