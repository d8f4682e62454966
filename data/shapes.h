// A dataset that needs no files: ten classes of drawn shapes, hard enough that a linear model
// fails and easy enough that a small convolutional network learns it within a minute.
//
// Place, size, tilt and stretch of the shape are random, and so are all colours, so that only
// the outline tells the class; lines, blobs and noise get in the way. Image i is a pure function
// of (seed, split, i, size); classes take turns, i % 10. A network that fails here is wrong; one
// that succeeds may still be bad at photographs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brim/base/random.h"
#include "brim/data/dataset.h"

namespace brim::data {

struct ShapesOptions {
  enum class Split { train, val };
  Split split = Split::train;
  /// Images; 0 is 8,000 to train on and 2,000 to validate.
  int64_t count = 0;
  /// Height and width in pixels, 16 to 1,024. Networks for CIFAR take 32.
  int size = 32;
  uint64_t seed = 0;
};

class Shapes : public Dataset {
 public:
  /// Draws nothing yet. Throws `ValueError` naming the option that is out of range.
  explicit Shapes(ShapesOptions options = {});

  int64_t size() const override { return options_.count; }
  /// arrow, circle, crescent, cross, heart, pentagon, ring, square, star, triangle.
  const std::vector<std::string>& class_names() const override;
  int64_t label(int64_t index) const override;
  /// Draws image `index`, always at full size.
  Image read(int64_t index, int target) const override;
  /// `shapes/train/17 (square)`.
  std::string describe(int64_t index) const override;

 private:
  ShapesOptions options_;
  RandomKey key_;
};

}  // namespace brim::data
