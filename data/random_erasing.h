// A random rectangle of an image erased: Zhong et al., "Random Erasing Data Augmentation", AAAI
// 2020, with torchvision's draws. Makes a network look at more than one part of an object.
// `prepare` (data/transforms.h) calls it when `Augment::random_erasing` asks for it. Works on
// bytes, before normalisation: a black rectangle is byte 0, not the mean colour.
#pragma once

#include <cstdint>
#include <optional>

#include "brim/base/random.h"
#include "brim/data/image.h"

namespace brim::data {

struct RandomErasing {
  /// Share of the images that lose a rectangle; 0 for none.
  float probability = 0;
  /// The rectangle's share of the area, drawn uniformly, and height / width, log-uniformly.
  float min_area = 0.02f, max_area = 0.33f;
  float min_ratio = 0.3f, max_ratio = 3.3f;
  enum class Fill {
    black,  ///< byte 0
    noise   ///< each byte uniform in 0..255, as in the paper
  };
  Fill fill = Fill::black;

  friend bool operator==(const RandomErasing&, const RandomErasing&) = default;
};

/// Throws `ValueError` naming the first option that makes no sense.
void check_random_erasing(const RandomErasing& erasing);

/// The rectangle to erase of size x size pixels, if any: where the probability says so, the first
/// of ten draws of area and ratio whose sides are below the size.
std::optional<Box> random_erasing_box(int size, const RandomErasing& erasing, RandomStream& random);

/// Erases it, in place; `rgb` has size x size x 3 bytes.
void random_erasing(int size, uint8_t* rgb, const RandomErasing& erasing, RandomStream& random);

}  // namespace brim::data
