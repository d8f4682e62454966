// What `infer` computes: the logits of an array, and the likeliest classes of an image that is
// prepared as the model's card says. The choices for a model without a card are this program's:
// ImageNet's, 224 pixels cut out of 256.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "brim/nn/models/load_model.h"

namespace brim::apps {

/// What an image goes through before the model sees it.
struct Preparation {
  int size = 224, resize = 256;
  bool exif = true;  ///< turned the way up that it says
  std::vector<float> mean, deviation;
  /// Told of a fault that leaves an image's pixels as they are.
  std::function<void(const std::string& fault)> note = {};
};

/// The card's; `size`, where it is not 0, instead of the card's, with the same share cut away.
Preparation preparation_of(const nn::ModelCard& card, int size);

/// x [N,H,W,3], floating, prepared already, to logits [N,classes] in float32; `batch` images at
/// once. Throws `ShapeError` or `DtypeError` for another x, under `name`.
Tensor logits_of(nn::Module& model, const Tensor& x, int64_t classes, int64_t batch,
                 const std::string& name);

struct Guess {
  int64_t index = 0;
  std::string name;  ///< "class 7" where the card has no names
  double probability = 0;
};

/// The likeliest `count` classes of the image at `path`, likeliest first. Throws `FileError` where
/// it cannot be read.
std::vector<Guess> classify(nn::LoadedModel& model, const Preparation& preparation,
                            const std::string& path, size_t count = 5);

}  // namespace brim::apps
