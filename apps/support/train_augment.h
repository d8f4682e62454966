// The flags of `train` that change images and labels at random: colour jitter, random erasing,
// mixup, CutMix. They add to what the data gets anyway (train_data.h). A program of your own sets
// `data::Augment` and `MixOptions` itself (data/transforms.h, train/mix.h).
#pragma once

#include <string>

#include "brim/brim.h"
#include "brim/apps/support/app.h"

namespace brim::apps {

struct AugmentFlags {
  std::string color_jitter_text;  ///< "B,C,S,H"
  data::ColorJitter color_jitter = {};
  float random_erasing = 0;
  MixOptions mix = {};
};

/// Declares the flags; `flags` must outlive the parsing.
void add_augment_flags(App& app, AugmentFlags& flags);

/// Reads what is text. Throws `ValueError` naming a bad value, or a flag that does nothing with
/// this data.
void check_augment_flags(AugmentFlags& flags, const std::string& data);

/// What the loader does beside `augment`.
data::Augment with_flags(data::Augment augment, const AugmentFlags& flags);

}  // namespace brim::apps
