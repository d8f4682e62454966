// From a decoded image to the square that a network sees. Each transform is a pure function of
// the image, its options and a stream of random numbers, in the ways of torchvision: the same
// distributions, not the same draws. Values stay bytes; normalisation happens on the device.
#pragma once

#include <cstdint>

#include "brim/base/random.h"
#include "brim/data/color_jitter.h"
#include "brim/data/image.h"
#include "brim/data/random_erasing.h"

namespace brim::data {

/// How `prepare` makes a square of an image.
struct Augment {
  enum class Kind {
    none,                ///< resize the shorter side, cut the centre: for evaluation
    padded_crop,         ///< pad, cut at random: for small images (CIFAR)
    random_resized_crop  ///< cut a random part and resize it: for photographs (ImageNet)
  };
  Kind kind = Kind::none;
  /// Mirror left and right, half of the time.
  bool flip = false;
  /// none: the shorter side before the cut, in pixels; 0 is the square's own side. ImageNet's
  /// custom is 256 for a square of 224.
  int resize = 0;
  /// padded_crop: pixels added on each side, and what they are.
  int padding = 4;
  enum class PaddingMode {
    black,   ///< torchvision's "constant"
    reflect  ///< the image mirrored at its outermost pixels; `padding` is then below the size
  };
  PaddingMode padding_mode = PaddingMode::black;
  /// random_resized_crop: the part's share of the area, and width / height, drawn uniformly and
  /// log-uniformly.
  float min_area = 0.08f, max_area = 1.0f;
  float min_ratio = 3.0f / 4, max_ratio = 4.0f / 3;
  /// Of the square, in this order and after the flip.
  ColorJitter color_jitter = {};
  RandomErasing random_erasing = {};

  friend bool operator==(const Augment&, const Augment&) = default;
};

/// Throws `ValueError` naming the first option that makes no sense for squares of `size`.
void check_augment(const Augment& augment, int size);

/// The shorter side that a decoder should leave so that `prepare` loses nothing:
/// `DecodeOptions::target`.
int decode_target(int size, const Augment& augment);

/// The part that torchvision's RandomResizedCrop would take of an image of width x height: ten
/// draws of area and ratio, then the largest centred part whose ratio is allowed.
Box random_resized_box(int width, int height, const Augment& augment, RandomStream& random);

/// Resizes the part of `random_resized_box` to size x size.
void random_resized_crop(const ImageView& image, int size, const Augment& augment,
                         RandomStream& random, uint8_t* out);

/// Resizes the shorter side to `shorter` (at least `size`) and cuts out the centre.
void center_crop(const ImageView& image, int size, int shorter, uint8_t* out);

/// Centre crop to size x size, `padding` pixels around it, and a random size x size part. Throws
/// `ValueError` for reflected padding that is not below the size.
void padded_crop(const ImageView& image, int size, const Augment& augment, RandomStream& random,
                 uint8_t* out);

/// Mirrors size x size pixels left and right, in place.
void flip_horizontal(int size, uint8_t* pixels);

/// The pixels that `prepare` takes from an image of width x height with the same stream.
Box prepare_source(int width, int height, int size, const Augment& augment, RandomStream random);

/// Crops as `augment` says, then flips, jitters colours and erases. `out` takes size x size x 3
/// bytes. The view may have no more than `prepare_source`.
void prepare(const ImageView& image, int size, const Augment& augment, RandomStream random,
             uint8_t* out);

}  // namespace brim::data
