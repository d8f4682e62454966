#include "brim/apps/support/run_identity.h"

#include <fmt/ranges.h>

#include "brim/data/check_images.h"
#include "brim/apps/support/train_pruning.h"
#include "brim/io/checksum.h"

namespace brim::apps {
namespace {

struct Setting {
  std::string name, value;
  /// Whether model, optimizer or averages are made otherwise with it, and so have other bytes.
  bool of_state = false;
};

// Short: there may be hundreds.
std::string said(const nn::ModelSizes& sizes) {
  io::Checksum checksum;
  for (const auto& [name, shape] : sizes.shapes) checksum.add(name + to_string(shape));
  std::string text = fmt::format("{} of its own, {:016x}", sizes.shapes.size(), checksum.value());
  if (!sizes.bypassed.empty()) text += fmt::format(", without {}", fmt::join(sizes.bypassed, " "));
  return text;
}

/// All that numbers follow from. Bytes follow from those of the state, and from the rehearsal.
std::vector<Setting> settings_of(const TrainFlags& flags, const TrainData& data) {
  const OptimizerFlags& o = flags.optimizer;
  const AugmentFlags& a = flags.augment;
  const optim::ScaledRate scaled = rate_for(o, flags.update_images(), flags.warmup);
  auto text = [](const auto& value) { return fmt::format("{}", value); };
  auto joined = [](const auto& values) { return fmt::format("{}", fmt::join(values, " ")); };
  std::vector<Setting> settings{
      {"model", flags.model, true},
      {"classes", text(data.classes), true},
      {"optimizer", o.name, true},
      {"momentum", text(o.momentum.value_or(0)), true},
      {"no decay", joined(o.no_decay), true},
      {"ema", text(o.ema), true},
      {"freeze", joined(o.freeze), true},
      {"size", text(flags.size)},
      {kDataSetting, data.train_set
                         ? fmt::format("{} of {} images", flags.data, data.train_set->size())
                         : flags.data},
      {"effective batch", text(flags.update_images())},
      {kStepsSetting, text(data.steps(flags))},
      {"seed", text(flags.seed)},
      {"learning rate", text(rate_for(o, flags.update_images(), 0).rate)},
      {"weight decay", text(o.weight_decay.value())},
      {"clip", fmt::format("norm {}, value {}", o.clip.norm, o.clip.value)},
      {"schedule", fmt::format("{}, warm-up {}", flags.schedule, scaled.warmup)},
      {"label smoothing", text(flags.label_smoothing)},
      {"augmentation", fmt::format("color {}, erasing {}, mixup {}, cutmix {}", a.color_jitter_text,
                                   a.random_erasing, a.mix.mixup, a.mix.cutmix)},
      {"bad images", flags.skip_bad_images ? "skipped" : "refused"}};
  // Checkpoints of before there was another have none.
  if (is_low_precision(flags.precision())) settings.push_back({"precision", flags.precision_text});
  if (flags.tf32) settings.push_back({"tf32", "allowed"});
  if (flags.cudnn_benchmark) settings.push_back({"cudnn benchmark", "on"});
  if (flags.gradients_text != "f32") settings.push_back({"gradients", flags.gradients_text});
  if (flags.parameters_text != "f32")
    settings.push_back({"parameters", flags.parameters_text, true});
  if (o.state_text != "f32") settings.push_back({"optimizer state", o.state_text, true});
  if (!flags.init_sizes.empty()) settings.push_back({"shapes", said(flags.init_sizes)});
  if (flags.scale_penalty > 0) settings.push_back({"scale penalty", text(flags.scale_penalty)});
  if (!flags.prune.to.empty()) settings.push_back({"pruning", pruning_identity(flags)});
  if (flags.precision() == Dtype::float16) settings.push_back({"loss scale", flags.loss_scale});
  return settings;
}

constexpr const char *kTraining = "list of training images",
                     *kValidation = "list of validation images", *kContents = "contents of images";
// Older checkpoints have these, whose names begin with the folder.
constexpr const char *kOldTraining = "training set", *kOldValidation = "validation set";

/// Names may be bytes that are no text.
std::string said(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    const std::string quoted = fmt::format("{:?}", name);
    const bool is_plain = quoted.size() == name.size() + 2;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", is_plain ? name : quoted);
  }
  return text;
}

std::string said(const data::Dataset& set, const std::string& folder) {
  return fmt::format("{}, their names {:016x}", set.size(), data::names_checksum(set, folder));
}

/// What the files of a data set are known by again.
std::vector<Setting> settings_of_files(const TrainFlags& flags, const TrainData& data) {
  std::vector<Setting> settings{{kListOfClasses, said(data.train_set->class_names())},
                                {kTraining, said(*data.train_set, flags.data)},
                                {kValidation, said(*data.val_set, flags.data)}};
  if (!data.contents.empty()) settings.push_back({kContents, data.contents});
  // Checkpoints of before pictures were turned have none.
  if (data.format == data::DatasetFormat::image_folder && flags.exif.value_or(true))
    settings.push_back({"orientation", "that of EXIF (unless --no-exif)"});
  return settings;
}

}  // namespace

std::string bytes_identity(const TrainFlags& flags, const TrainData& data,
                           const RehearsalOptions& rehearsal) {
  std::string state;
  for (const Setting& setting : settings_of(flags, data))
    if (setting.of_state) state += fmt::format("{} {}, ", setting.name, setting.value);
  if (!flags.sizes.empty()) state += fmt::format("shapes {}, ", said(flags.sizes));
  return state + plan_identity(rehearsal);
}

io::Metadata numbers_identity(const TrainFlags& flags, const TrainData& data) {
  io::Metadata identity;
  for (Setting& setting : settings_of(flags, data))
    identity.emplace(std::move(setting.name), std::move(setting.value));
  if (data.format)
    for (Setting& setting : settings_of_files(flags, data))
      identity.emplace(std::move(setting.name), std::move(setting.value));
  return identity;
}

std::set<std::string> identity_of_files() {
  return {kListOfClasses, kTraining, kValidation, kContents, kOldTraining, kOldValidation};
}

bool know_files(const io::Metadata& one, const io::Metadata& other) {
  return one.contains(kTraining) && other.contains(kTraining);
}

}  // namespace brim::apps
