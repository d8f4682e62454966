// What a file of weights says of itself, so that it can be used alone: which model it is, the names
// of its classes, and what is done to an image before the model sees it. Strings in the metadata of
// a safetensors file (io/safetensors.h), under keys that other programs ignore:
//
//   brim.model      resnet18
//   brim.classes    ["cat","dog"]         in the order of the outputs
//   brim.size       224                   height and width of the input, in pixels
//   brim.resize     256                   the shorter side before the centre is cut out
//   brim.exif       true                  whether images of files were turned as EXIF says
//   brim.mean       [0.485,0.456,0.406]   of each channel, in [0, 1]
//   brim.deviation  [0.229,0.224,0.225]
//   brim.shapes     {"conv1.weight":[40,3,7,7]}   as in the file, of tensors that the model usually
//                                                 has in other shapes: those of a pruned one
//   brim.bypassed   ["layer1.2"]          modules that give what they are given, and have no
//   tensors
//
// All may be missing: a file of PyTorch has none of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "brim/io/safetensors.h"
#include "brim/nn/resize.h"

namespace brim::nn {

struct ModelCard {
  static constexpr int kLargestSide = 4096;

  std::string model;                 ///< a name of `make_model`; "" where it is not known
  std::vector<std::string> classes;  ///< empty where they are not known
  /// 1 to `kLargestSide`, resize at least size; 0 where they are not known.
  int size = 0, resize = 0;
  std::optional<bool> exif;  ///< none where it is not known, or no image was of such a file
  std::vector<float> mean, deviation;
  ModelSizes sizes;  ///< shapes are those of the model, not of the file (nn/weights.h)
};

/// The entries that are known, and "format": "pt", which tells others that names and layouts are
/// PyTorch's. Classes whose names are not UTF-8 are written escaped (base/utf8.h). Throws
/// `ValueError` for a card that `card_of` would refuse, naming the entry.
io::Metadata to_metadata(const ModelCard& card);

/// The card of a file. It is untrusted: throws `FileError` naming the file and the entry where a
/// name could not be shown, all names take more than 4 MiB, a number is out of range, mean and
/// deviation are not one number for each of three channels, the deviation above 0, or a shape is
/// none of a tensor.
ModelCard card_of(const io::SafetensorsFile& file);

}  // namespace brim::nn
