// From bytes to what a network wants: (x / 255 - mean) / deviation for each channel, computed where
// the images are (`device` is where `Trainer` and `evaluate` copy them). The defaults are
// ImageNet's, so give others for other pictures, and the same to training and evaluation. Resizing
// and augmentation come before, in data/transforms.h. The op itself is `brim::normalize`.
#pragma once

#include <vector>

#include "brim/ops/normalize.h"

namespace brim {

struct InputOptions {
  Device device = {};
  Dtype dtype = Dtype::float32;
  /// Images come to the device as bytes, and are made numbers there: a quarter of what float32
  /// takes while they wait for it. False: as numbers, made on the host. The values are the same.
  bool as_bytes = true;
  /// Of each channel, in [0, 1]; ImageNet's.
  std::vector<float> mean = {0.485f, 0.456f, 0.406f}, deviation = {0.229f, 0.224f, 0.225f};
};

/// uint8 [N,H,W,C] to [N,H,W,C] of the input's dtype. Images that are numbers are returned as they
/// are.
inline Tensor prepare_input(Tensor images, const InputOptions& input,
                            Where where = Where::current()) {
  if (is_floating(images.dtype())) return images;
  return normalize(std::move(images),
                   {.mean = input.mean, .std = input.deviation, .dtype = input.dtype}, where);
}

}  // namespace brim
