#include "brim/nn/models/load_model.h"

#include "brim/nn/models/registry.h"
#include "brim/nn/weights.h"

namespace brim::nn {
namespace {

constexpr const char* kTag = "load_model";

void choose_model(ModelCard& card, const std::string& wanted, const std::string& path) {
  if (card.model.empty()) card.model = wanted;
  expect<ValueError>(!card.model.empty(), kTag,
                     "'{}' does not say which model it is (it has no brim.model in its metadata): "
                     "name one",
                     path);
  expect<ValueError>(wanted.empty() || wanted == card.model, kTag, "'{}' is a {}, not a {}", path,
                     card.model, wanted);
}

std::unique_ptr<Module> on_meta(const std::string& model, int64_t classes,
                                const ModelSizes& sizes = {}) {
  return make_model(model,
                    {.classes = classes, .seed = {}, .device = Device::meta(), .sizes = sizes});
}

/// As many as the classifier in the file has; 1000 where it has none, so that what is missing is
/// listed.
int64_t count_classes(const io::SafetensorsFile& file, const std::string& model) {
  const std::unique_ptr<Module> some = on_meta(model, 1);
  const io::TensorInfo* weight =
      file.find(name_prefix(*some, file) + classifier_head(*some) + ".weight");
  if (weight == nullptr) return 1000;
  // A shape with bytes to it cannot be larger than the file.
  expect<FileError>(weight->shape.size() == 2 && weight->end > weight->begin, kTag,
                    "'{}': tensor '{}' is {}, but a classifier's weight is [classes,features]",
                    file.path(), weight->name, weight->shape);
  return weight->shape[0];
}

// Also that the card's shapes are those of such a model: the file may have come from anywhere.
void require_weights(const io::SafetensorsFile& file, const LoadedModel& loaded) {
  std::unique_ptr<Module> model;
  try {
    model = on_meta(loaded.card.model, loaded.classes, loaded.card.sizes);
  } catch (const Error& error) {
    raise<FileError>(kTag, "'{}': brim.shapes or brim.bypassed is not of a {}: {}", file.path(),
                     loaded.card.model, error.what());
  }
  check_weights(*model, file);
}

}  // namespace

LoadedModel load_model(const std::string& path, const LoadModelOptions& options) {
  io::SafetensorsFile file(path);
  LoadedModel loaded{.module = nullptr, .card = card_of(file)};
  choose_model(loaded.card, options.model, path);
  const std::string& model = loaded.card.model;
  loaded.classes = count_classes(file, model);
  require_weights(file, loaded);
  auto named = static_cast<int64_t>(loaded.card.classes.size());
  expect<FileError>(named == 0 || named == loaded.classes, kTag,
                    "'{}' names {} classes, but its classifier has {}", path, named,
                    loaded.classes);
  loaded.module = make_model(model, {.classes = loaded.classes,
                                     .seed = {},
                                     .dtype = options.dtype,
                                     .device = options.device,
                                     .sizes = loaded.card.sizes});
  loaded.prefix = load_weights(*loaded.module, file).prefix;
  loaded.module->eval();
  return loaded;
}

}  // namespace brim::nn
