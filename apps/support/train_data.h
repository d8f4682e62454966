// What `train` trains on: opens the data that the flags name, with augmentation and normalisation
// to go with it (as for CIFAR up to 64 pixels, as for ImageNet above; shapes are not augmented,
// digits not mirrored). In two parts, because the memory plan comes in between: `open_data` knows
// classes and batches, `open_loaders` takes host memory. The choices are this program's; in one of
// your own, make a `data::Loader` (data/loader.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/train_flags.h"

namespace brim::apps {

struct TrainData {
  std::optional<data::DatasetFormat> format;  ///< of files; none for shapes and synthetic
  std::shared_ptr<const data::Dataset> train_set, val_set;      // null for synthetic
  std::vector<std::shared_ptr<const data::ImageCache>> caches;  // those of these that are one
  int64_t classes = 0;
  InputOptions input = {};
  /// What `--check-images` found: why images were left out, and what all others are known by.
  std::vector<std::string> left_out;
  std::string contents;
  // From here on after `open_loaders`.
  std::shared_ptr<memory::Account> host;       // of pinned batches; null on the CPU
  std::unique_ptr<data::Loader> train_loader;  // null for synthetic
  std::unique_ptr<BatchSource> training;
  std::unique_ptr<data::Loader> validation;  // null for synthetic

  /// The bytes of images that are kept in host memory now.
  int64_t cached_bytes() const {
    int64_t bytes = 0;
    for (const auto& cache : caches) bytes += cache->bytes();
    return bytes;
  }
  /// In an epoch; the loader drops an incomplete one.
  int64_t batches(const TrainFlags& flags) const {
    return train_set ? train_set->size() / flags.update_images() : flags.steps;
  }
  int64_t steps(const TrainFlags& flags) const {
    return flags.steps > 0 ? flags.steps : flags.epochs * batches(flags);
  }
};

/// Declares the flags that say how images are read; `flags` must outlive the parsing.
void add_reading_flags(App& app, TrainFlags& flags);

/// Opens the data sets; takes no memory for images. Where the flags ask for it, reads every image
/// first, and tells standard error of each that cannot be read. Throws `FileError` or `ValueError`
/// naming what is wrong with the data or the flags.
TrainData open_data(const TrainFlags& flags);

/// What an image of these data goes through where none is changed at random: what a model that was
/// trained on them expects afterwards.
data::Augment validation_augment(const TrainFlags& flags);

/// Up to so many bytes of a split's images stay decoded in host memory.
int64_t cache_size(const TrainFlags& flags);

/// Takes host memory for batches, pinned where they go to a GPU: at most half of the machine's.
/// Throws `ValueError`.
void open_loaders(const TrainFlags& flags, TrainData& data);

}  // namespace brim::apps
