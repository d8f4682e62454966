#include "brim/nn/model_card.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "brim/base/utf8.h"
#include "brim/io/plain_text.h"

namespace brim::nn {
namespace {

using nlohmann::json;

constexpr const char* kTag = "model_card";
constexpr int kLargestSide = ModelCard::kLargestSide;
// Room for the names of ImageNet-21K three times; the tree takes many times the bytes of its text.
constexpr size_t kLongestEntry = 4 << 20;
constexpr size_t kLongestShown = 60;  // of a name that is refused
constexpr size_t kChannels = 3;
constexpr uint64_t kLargestSize = uint64_t{1} << 40;  // along an axis of a tensor

/// What is wrong with a name; "" for nothing.
std::string_view fault_of_name(const std::string& name) {
  if (name.empty()) return "is empty";
  if (name.size() > io::kLongestName) return "is too long";
  if (!is_utf8(name)) return "is not UTF-8";
  return io::is_plain_text(name) ? "" : "has control characters";
}

std::string fault_of_classes(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (std::string_view fault = fault_of_name(names[i]); !fault.empty())
      return fmt::format("brim.classes: name {}, {:?}, {}", i,
                         std::string_view(names[i]).substr(0, kLongestShown), fault);
  return "";
}

std::string fault_of_sizes(const ModelSizes& sizes) {
  for (const std::string& name : sizes.bypassed)
    if (std::string_view fault = fault_of_name(name); !fault.empty())
      return fmt::format("brim.bypassed: {:?} {}", std::string_view(name).substr(0, kLongestShown),
                         fault);
  for (const auto& [name, shape] : sizes.shapes) {
    if (std::string_view fault = fault_of_name(name); !fault.empty())
      return fmt::format("brim.shapes: {:?} {}", std::string_view(name).substr(0, kLongestShown),
                         fault);
    if (std::ranges::any_of(shape, [](int64_t size) { return size < 1; }))
      return fmt::format("brim.shapes: {} cannot be {}", name, to_string(shape));
  }
  return "";
}

/// What is wrong with a card; "" for nothing.
std::string fault_of(const ModelCard& card) {
  if (std::string_view fault = fault_of_name(card.model); !card.model.empty() && !fault.empty())
    return fmt::format("brim.model {}", fault);
  if (std::string fault = fault_of_classes(card.classes); !fault.empty()) return fault;
  if (std::string fault = fault_of_sizes(card.sizes); !fault.empty()) return fault;
  for (int side : {card.size, card.resize})
    if (side < 0 || side > kLargestSide)
      return fmt::format("brim.size and brim.resize are 1 to {}, got {}", kLargestSide, side);
  if (card.resize != 0 && card.resize < card.size)
    return fmt::format("brim.resize {} is below brim.size {}", card.resize, card.size);
  if (card.mean.empty() && card.deviation.empty()) return "";
  bool valid = card.mean.size() == kChannels && card.deviation.size() == kChannels;
  for (float value : card.mean) valid &= std::isfinite(value);
  for (float value : card.deviation) valid &= std::isfinite(value) && value > 0;
  return valid ? "" : "brim.mean and brim.deviation are not three numbers, the latter above 0";
}

// What has four axes has its channels last in the model and second in the file (nn/weights.h).
Shape in_model_order(const Shape& s) { return s.size() == 4 ? Shape{s[0], s[2], s[3], s[1]} : s; }
Shape in_file_order(const Shape& s) { return s.size() == 4 ? Shape{s[0], s[3], s[1], s[2]} : s; }

/// The entries of one file.
class Entries {
 public:
  explicit Entries(const io::SafetensorsFile& file) : file_(file) {}

  std::string text(const char* key) const {
    auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? "" : found->second;
  }

  int whole(const char* key) const {
    json value = parsed(key);
    if (value.is_null()) return 0;
    bool valid = value.is_number_unsigned() && value > 0 && value <= kLargestSide;
    if (!valid) refuse(key, fmt::format("expected a whole number from 1 to {}", kLargestSide));
    return value;
  }

  std::optional<bool> truth(const char* key) const {
    json value = parsed(key);
    if (value.is_null()) return {};
    if (!value.is_boolean()) refuse(key, "expected true or false");
    return value.get<bool>();
  }

  template <class T>
  std::vector<T> list(const char* key, bool (json::*is_right)() const noexcept,
                      const char* kind) const {
    json value = parsed(key);
    if (value.is_null()) return {};
    if (!value.is_array() ||
        !std::ranges::all_of(value, [&](const json& entry) { return (entry.*is_right)(); }))
      refuse(key, fmt::format("expected a list of {}", kind));
    return value;
  }

  /// In the order of the model's axes.
  TensorShapes shapes(const char* key) const {
    json value = parsed(key);
    if (value.is_null()) return {};
    if (!value.is_object()) refuse(key, "expected shapes by name");
    TensorShapes shapes;
    for (const auto& [name, sizes] : value.items()) {
      const bool valid = sizes.is_array() && sizes.size() <= Shape::kMax &&
                         std::ranges::all_of(sizes, [](const json& size) {
                           return size.is_number_unsigned() && size <= kLargestSize;
                         });
      if (!valid) refuse(key, "expected lists of sizes");
      shapes.emplace(name, in_model_order(Shape(sizes.get<std::vector<int64_t>>())));
    }
    return shapes;
  }

 private:
  /// Null where the file does not have it.
  json parsed(const char* key) const {
    std::string entry = text(key);
    if (entry.empty()) return {};
    if (entry.size() > kLongestEntry) refuse(key, "it is too long");
    json value = json::parse(entry, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded() || value.is_null()) refuse(key, "it is not JSON");
    return value;
  }

  [[noreturn]] void refuse(const char* key, std::string_view why) const {
    raise<FileError>(kTag, "'{}': {}: {}", file_.path(), key, why);
  }

  const io::SafetensorsFile& file_;
};

std::string shapes_of(const ModelCard& card) {
  json shapes = json::object();
  for (const auto& [name, shape] : card.sizes.shapes) {
    const Shape stored = in_file_order(shape);
    shapes[name] = std::vector<int64_t>(stored.begin(), stored.end());
  }
  return shapes.dump();
}

std::string list_of(const std::vector<float>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

}  // namespace

io::Metadata to_metadata(const ModelCard& given) {
  ModelCard card = given;
  for (std::string& name : card.classes) name = escaped_utf8(name);  // folders have any bytes
  std::string fault = fault_of(card);
  expect<ValueError>(fault.empty(), kTag, "{}", fault);
  io::Metadata metadata{{"format", "pt"}};
  if (!card.model.empty()) metadata["brim.model"] = card.model;
  if (!card.classes.empty()) {
    std::string& names = metadata["brim.classes"] = json(card.classes).dump();
    expect<ValueError>(names.size() <= kLongestEntry, kTag,
                       "brim.classes: the names take {} bytes, more than the limit of {}",
                       names.size(), kLongestEntry);
  }
  if (card.size > 0) metadata["brim.size"] = std::to_string(card.size);
  if (card.resize > 0) metadata["brim.resize"] = std::to_string(card.resize);
  if (card.exif) metadata["brim.exif"] = *card.exif ? "true" : "false";
  if (!card.mean.empty()) {
    metadata["brim.mean"] = list_of(card.mean);
    metadata["brim.deviation"] = list_of(card.deviation);
  }
  if (!card.sizes.shapes.empty()) metadata["brim.shapes"] = shapes_of(card);
  if (!card.sizes.bypassed.empty()) metadata["brim.bypassed"] = json(card.sizes.bypassed).dump();
  return metadata;
}

ModelCard card_of(const io::SafetensorsFile& file) {
  Entries entries(file);
  ModelCard card{
      .model = entries.text("brim.model"),
      .classes = entries.list<std::string>("brim.classes", &json::is_string, "names"),
      .size = entries.whole("brim.size"),
      .resize = entries.whole("brim.resize"),
      .exif = entries.truth("brim.exif"),
      .mean = entries.list<float>("brim.mean", &json::is_number, "numbers"),
      .deviation = entries.list<float>("brim.deviation", &json::is_number, "numbers"),
      .sizes = {.shapes = entries.shapes("brim.shapes"),
                .bypassed = entries.list<std::string>("brim.bypassed", &json::is_string, "names")}};
  std::string fault = fault_of(card);
  expect<FileError>(fault.empty(), kTag, "'{}': {}", file.path(), fault);
  return card;
}

}  // namespace brim::nn
