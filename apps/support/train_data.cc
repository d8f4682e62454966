#include "brim/apps/support/train_data.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "brim/base/error.h"
#include "brim/data/check_images.h"
#include "brim/data/subset.h"
#include "brim/apps/support/exif_flag.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/output.h"
#include "brim/memory/pinned_source.h"

namespace brim::apps {
namespace {

constexpr int kSmallImage = 64;  // up to here pictures are cropped like CIFAR's

data::Augment training_augment(const TrainFlags& flags, const TrainData& data) {
  using Kind = data::Augment::Kind;
  if (flags.data == "shapes") return {};  // as drawn: every place, size and colour occurs
  return {.kind = flags.size <= kSmallImage ? Kind::padded_crop : Kind::random_resized_crop,
          .flip = data.format != data::DatasetFormat::idx,  // a mirrored digit is none
          // The usual 4 is for long trainings: in short ones small networks then learn too slowly.
          .padding = std::min(2, flags.size - 1),
          // Black borders would be seen in training and never afterwards.
          .padding_mode = data::Augment::PaddingMode::reflect};
}

InputOptions input_options(const TrainFlags& flags, const TrainData& data) {
  InputOptions input{.device = flags.device};
  if (data.format == data::DatasetFormat::idx) {  // MNIST's statistics
    input.mean = {0.1307f, 0.1307f, 0.1307f};
    input.deviation = {0.3081f, 0.3081f, 0.3081f};
  } else if (flags.size <= kSmallImage) {  // CIFAR's; ImageNet's otherwise
    input.mean = {0.4914f, 0.4822f, 0.4465f};
    input.deviation = {0.2470f, 0.2435f, 0.2616f};
  }
  return input;
}

std::shared_ptr<const data::Dataset> open_files(const TrainFlags& flags, const char* split) {
  return data::open_dataset(flags.data, split, {.exif = flags.exif.value_or(true)});
}

std::shared_ptr<const data::Dataset> with_cache(const TrainFlags& flags,
                                                std::shared_ptr<const data::Dataset> files,
                                                TrainData& data) {
  if (cache_size(flags) == 0) return files;
  return data.caches.emplace_back(
      std::make_shared<const data::ImageCache>(std::move(files), cache_size(flags)));
}

/// Reads every image. Bad ones are left out of the set.
void check_split(const TrainFlags& flags, std::shared_ptr<const data::Dataset>& files,
                 TrainData& data) {
  const data::CheckedImages checked = data::check_images(*files, flags.workers);
  data.contents += fmt::format("{}{:016x}", data.contents.empty() ? "" : " ", checked.contents);
  std::vector<int64_t> bad;
  for (const data::BadPicture& picture : checked.bad) {
    bad.push_back(picture.index);
    data.left_out.push_back(picture.reason);
  }
  if (!bad.empty()) files = std::make_shared<const data::Subset>(std::move(files), bad);
}

void check_images(const TrainFlags& flags, TrainData& data) {
  const int64_t all = data.train_set->size() + data.val_set->size();
  check_split(flags, data.train_set, data);
  check_split(flags, data.val_set, data);
  if (!flags.skip_bad_images)
    for (const std::string& reason : data.left_out) std::cerr << shown(reason) << '\n';
  expect<FileError>(data.left_out.empty() || flags.skip_bad_images, "check-images",
                    "{} of the {} images of {} cannot be read: mend or remove them, or leave them "
                    "out with --skip-bad-images",
                    data.left_out.size(), all, flags.data);
  for (const auto& files : {data.train_set, data.val_set})
    expect<FileError>(files->size() > 0, "check-images",
                      "no image of a split of {} can be read; the first error: {}", flags.data,
                      data.left_out.empty() ? "" : data.left_out.front());
}

void open_sets(const TrainFlags& flags, TrainData& data) {
  if (flags.data == "shapes") {
    using Split = data::ShapesOptions::Split;
    data.train_set = std::make_shared<data::Shapes>(
        data::ShapesOptions{.split = Split::train, .size = flags.size});
    data.val_set = std::make_shared<data::Shapes>(
        data::ShapesOptions{.split = Split::val, .size = flags.size});
  } else {
    data.format = data::detect_format(flags.data);
    data.train_set = open_files(flags, "train");
    data.val_set = open_files(flags, "val");
    if (flags.check_images) check_images(flags, data);
    data.train_set = with_cache(flags, std::move(data.train_set), data);
    data.val_set = with_cache(flags, std::move(data.val_set), data);
  }
  data.classes = data.train_set->classes();
}

}  // namespace

void add_reading_flags(App& app, TrainFlags& f) {
  app.add_option("--workers", f.workers, "threads that read images ahead")
      .shows_default()
      .check(whole_number(0, data::kMostWorkers));
  app.add_option(
         "--cache-images", f.cache_images_text,
         "keep a split's images decoded in host memory, if all fit in this: 1GiB, 0; unasked "
         "256MiB, on a CPU with a budget 0")
      .type_name("SIZE")
      .check(byte_size(0));
  app.add_flag("--skip-bad-images", f.skip_bad_images,
               "go on where an image cannot be read; each is named");
  app.add_flag("--check-images", f.check_images,
               "first read every image whole, and name all that cannot be read; a checkpoint then "
               "knows the images by their contents");
  add_exif_flag(app, f.exif, "turn them");
}

// A budget is of this memory too where it is of a CPU's tensors: then nothing is kept unasked.
int64_t cache_size(const TrainFlags& flags) {
  if (flags.cache_images) return *flags.cache_images;
  return flags.budget > 0 && flags.device.is_cpu() ? 0 : unasked_cache();
}

data::Augment validation_augment(const TrainFlags& flags) {
  bool files = flags.data != "shapes" && flags.data != "synthetic";
  if (!files || flags.size <= kSmallImage) return {};
  return {.resize = std::min(flags.size * 256 / 224, nn::ModelCard::kLargestSide)};
}

TrainData open_data(const TrainFlags& flags) {
  TrainData data;
  if (flags.data == "synthetic") {
    data.input = input_options(flags, data);
    data.classes = flags.classes > 0 ? flags.classes : 1000;
    return data;
  }
  open_sets(flags, data);
  data.input = input_options(flags, data);
  expect<ValueError>(flags.classes == 0 || flags.classes >= data.classes, "classes",
                     "--classes {} is fewer than the {} classes of {}", flags.classes, data.classes,
                     flags.data);
  if (flags.classes > 0) data.classes = flags.classes;
  expect<ValueError>(flags.update_images() <= data.train_set->size(), "batch",
                     "--{} {} is larger than the {} images of {}",
                     flags.effective_batch > 0 ? "effective-batch" : "batch", flags.update_images(),
                     data.train_set->size(), flags.data);
  return data;
}

void open_loaders(const TrainFlags& flags, TrainData& data) {
  if (flags.data == "synthetic") {
    data.training =
        std::make_unique<SyntheticSource>(data::SyntheticOptions{.count = flags.update_images(),
                                                                 .size = flags.size,
                                                                 .classes = data.classes,
                                                                 .seed = flags.seed},
                                          data.batches(flags));
    return;
  }
  if (flags.device.is_cuda())
    data.host = memory::pinned_account(flags.device, memory::host_memory() / 2, "direct");
  data::LoaderOptions options{
      .batch = flags.update_images(),
      .size = flags.size,
      .workers = flags.workers,
      .seed = flags.seed,
      .drop_last = true,
      .augment = with_flags(training_augment(flags, data), flags.augment),
      .bad_image = flags.skip_bad_images ? data::BadImage::replace : data::BadImage::fail,
      .host = data.host};
  data.train_loader = std::make_unique<data::Loader>(data.train_set, options);
  data.training = std::make_unique<LoaderSource>(*data.train_loader);
  options.batch = flags.batch;
  options.shuffle = options.drop_last = false;
  options.clamp_batch = true;
  if (flags.skip_bad_images) options.bad_image = data::BadImage::ignore;
  options.augment = validation_augment(flags);
  data.validation = std::make_unique<data::Loader>(data.val_set, options);
}

}  // namespace brim::apps
