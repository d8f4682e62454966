#include "brim/apps/support/train_weights.h"

#include <algorithm>
#include <optional>

#include "brim/apps/support/flag_values.h"
#include "brim/io/atomic_file.h"

namespace brim::apps {
namespace {

void check_initial_weights(const TrainFlags& flags, const TrainData& data) {
  io::SafetensorsFile file(flags.init);
  std::string told = nn::card_of(file).model;
  expect<ValueError>(told.empty() || told == flags.model, "flags",
                     "--init {} is a {}, not a {}: say --model {}", flags.init, told, flags.model,
                     told);
  std::unique_ptr<nn::Module> model;
  try {
    model = nn::make_model(flags.model, model_options(flags, data, Device::meta()));
  } catch (const Error& error) {
    raise<FileError>("flags", "--init {}: brim.shapes or brim.bypassed is not of a {}: {}",
                     flags.init, flags.model, error.what());
  }
  nn::check_weights(*model, file, {.new_head = flags.new_head});
}

/// Outputs that no class of the data set has (`--classes`) are called by their number.
std::vector<std::string> class_names(const TrainData& data) {
  if (data.train_set == nullptr) return {};
  std::vector<std::string> names = data.train_set->class_names();
  for (int64_t i = data.train_set->classes(); i < data.classes; ++i)
    names.push_back(fmt::format("class {}", i));
  return names;
}

nn::ModelCard card_for(const TrainFlags& flags, const TrainData& data,
                       const nn::ModelSizes& sizes) {
  return {.model = flags.model,
          .classes = class_names(data),
          .size = flags.size,
          .resize = validation_augment(flags).resize,
          .exif = data.format == data::DatasetFormat::image_folder
                      ? std::optional(flags.exif.value_or(true))
                      : std::nullopt,
          .mean = data.input.mean,
          .deviation = data.input.deviation,
          .sizes = sizes};
}

void save(const TrainFlags& flags, const TrainData& data, nn::Module& model,
          const std::string& path) {
  const nn::ModelSizes sizes = nn::sizes_beside(model, *usual_model(flags, data));
  nn::save_weights(model, path, card_for(flags, data, sizes));
}

}  // namespace

void add_weight_flags(App& app, TrainFlags& f) {
  app.add_option("--init", f.init, "safetensors file of weights to start from, also of PyTorch")
      .type_name("FILE")
      .check(file_name());
  app.add_flag("--new-head", f.new_head, "leave the classifier as initialised, for other classes");
  app.add_option("--save", f.save, "safetensors file for the trained weights, see infer --help")
      .type_name("FILE")
      .check(file_name());
  app.add_option("--save-best", f.save_best, "and for those of the epoch with the best accuracy")
      .type_name("FILE")
      .check(file_name());
}

std::unique_ptr<nn::Module> usual_model(const TrainFlags& flags, const TrainData& data) {
  nn::ModelOptions options = model_options(flags, data, Device::meta());
  options.sizes = {};
  return nn::make_model(flags.model, options);
}

void take_initial_sizes(TrainFlags& flags, const TrainData& data) {
  if (flags.init.empty()) return;
  nn::ModelSizes& sizes = flags.init_sizes;
  sizes = nn::card_of(io::SafetensorsFile(flags.init)).sizes;
  nn::TensorShapes& shapes = sizes.shapes;
  if (flags.new_head && !shapes.empty()) {
    auto head = shapes.find(nn::classifier_head(*usual_model(flags, data)) + ".weight");
    if (head != shapes.end()) head->second[0] = data.classes;
  }
  flags.sizes = sizes;
}

void check_weight_flags(const TrainFlags& flags, const TrainData& data) {
  expect<ValueError>(!flags.new_head || !flags.init.empty(), "flags",
                     "--new-head needs --init: without it the whole model is new");
  if (!flags.init.empty()) check_initial_weights(flags, data);
  for (const std::string& path : {flags.save, flags.save_best}) {
    if (path.empty()) continue;
    nn::to_metadata(
        card_for(flags, data, flags.sizes));  // names of folders may be no names for a file
    io::check_writable(path, "save");
  }
}

std::string other_classes(const TrainFlags& flags, const TrainData& data) {
  if (flags.init.empty() || flags.new_head) return "";
  const std::vector<std::string> there = nn::card_of(io::SafetensorsFile(flags.init)).classes,
                                 here = class_names(data);
  if (there.size() != here.size()) return "";  // not known, or the classifier does not fit
  const auto [was, is] = std::ranges::mismatch(there, here);
  if (was == there.end()) return "";
  return fmt::format(
      "{} was trained for other classes: its class {} is '{}', here it is '{}'; its classifier is "
      "kept",
      flags.init, was - there.begin(), *was, *is);
}

std::string load_initial_weights(const TrainFlags& flags, nn::Module& model) {
  if (flags.init.empty()) return "";
  const nn::LoadReport report = nn::load_weights(model, flags.init, {.new_head = flags.new_head});
  return said_of_prefix(flags.init, report.prefix);
}

std::string said_of_prefix(const std::string& path, const std::string& prefix) {
  if (prefix.empty()) return "";
  return fmt::format("the names in {} begin with '{}', which is taken off", path, prefix);
}

void save_best_weights(const TrainFlags& flags, const TrainData& data, nn::Module& model) {
  if (!flags.save_best.empty()) save(flags, data, model, flags.save_best);
}

void save_trained_weights(const TrainFlags& flags, const TrainData& data, nn::Module& model,
                          optim::Ema* ema) {
  if (flags.save.empty()) return;
  std::optional<optim::EmaScope> averages;
  if (ema != nullptr) averages.emplace(*ema);
  save(flags, data, model, flags.save);
}

}  // namespace brim::apps
