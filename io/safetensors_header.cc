#include "brim/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "brim/base/utf8.h"
#include "brim/io/plain_text.h"
#include "brim/io/tensor_bytes.h"

namespace brim::io {
namespace {

constexpr const char* kTag = kSafetensorsTag;
constexpr const char* kMetadataKey = "__metadata__";
// A description takes more bytes than its text, so their number is limited.
constexpr size_t kMostTensors = 100'000, kMostMetadata = 10'000;

struct NamedDtype {
  std::string_view name;
  Dtype dtype;
};
constexpr std::array<NamedDtype, kDtypes> kNamedDtypes{{{"F64", Dtype::float64},
                                                        {"F32", Dtype::float32},
                                                        {"F16", Dtype::float16},
                                                        {"BF16", Dtype::bfloat16},
                                                        {"I64", Dtype::int64},
                                                        {"I32", Dtype::int32},
                                                        {"I8", Dtype::int8},
                                                        {"U8", Dtype::uint8},
                                                        {"BOOL", Dtype::boolean}}};

std::string_view name_of(Dtype dtype) {
  return std::ranges::find(kNamedDtypes, dtype, &NamedDtype::dtype)->name;
}

/// Takes the header's tokens one by one and throws at the first that does not belong there.
class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(const std::string& path) : path_(path) {}
  SafetensorsHeader take() && { return std::move(header_); }

  bool start_object(size_t) override {
    if (place_ == Place::start) return go_to(Place::header);
    if (place_ != Place::header) refuse("an object where none belongs");
    if (key_ != kMetadataKey) return start_tensor();
    if (std::exchange(has_metadata_, true)) refuse("__metadata__ twice");
    return go_to(Place::metadata);
  }

  bool key(std::string& text) override {
    if (!is_plain_text(text)) refuse("a name that is too long or has control characters");
    key_ = std::move(text);
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::metadata) return add_metadata(std::move(text));
    if (place_ != Place::tensor || key_ != "dtype") refuse("a string where none belongs");
    if (dtype_) refuse("dtype twice");
    auto known = std::ranges::find(kNamedDtypes, text, &NamedDtype::name);
    if (known == kNamedDtypes.end())
      refuse(fmt::format("dtype {}, which is not known", is_plain_text(text) ? text : "?"));
    dtype_ = known->dtype;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::tensor && key_ == "shape" && !shape_) {
      shape_.emplace();
      return go_to(Place::shape);
    }
    if (place_ == Place::tensor && key_ == "data_offsets" && !offsets_) {
      offsets_.emplace();
      return go_to(Place::offsets);
    }
    refuse("a list where none belongs, or twice");
  }

  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) refuse("a number where none belongs");
    if (value > uint64_t{INT64_MAX}) refuse(fmt::format("the number {} beyond 2^63 - 1", value));
    Dims& list = place_ == Place::shape ? *shape_ : *offsets_;
    if (list.size() == Dims::kMax) refuse(fmt::format("more than {} axes", int{Dims::kMax}));
    list.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool end_array() override { return go_to(Place::tensor); }

  bool end_object() override {
    if (place_ == Place::tensor) add_tensor();
    return go_to(place_ == Place::header ? Place::end : Place::header);
  }

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool number_integer(int64_t value) override { refuse(fmt::format("the number {}", value)); }
  bool number_float(double, const std::string&) override { refuse("a number that is not whole"); }
  bool binary(nlohmann::json::binary_t&) override { refuse("binary data"); }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    raise<FileError>(kTag, "'{}': the header is not JSON, at its byte {}", path_, at);
  }

 private:
  enum class Place { start, header, metadata, tensor, shape, offsets, end };

  bool go_to(Place place) {
    place_ = place;
    return true;
  }

  bool start_tensor() {
    if (header_.tensors.size() == kMostTensors)
      refuse(fmt::format("more than {} tensors", kMostTensors));
    name_ = std::move(key_);
    dtype_.reset();
    shape_.reset();
    offsets_.reset();
    return go_to(Place::tensor);
  }

  void add_tensor() {
    if (!dtype_ || !shape_ || !offsets_) refuse("no dtype, shape or data_offsets");
    if (offsets_->size() != 2) refuse("data_offsets that are not two");
    header_.tensors.push_back({std::move(name_), *dtype_, *shape_, (*offsets_)[0], (*offsets_)[1]});
  }

  bool add_metadata(std::string value) {
    if (header_.metadata.size() == kMostMetadata)
      refuse(fmt::format("more than {} entries of metadata", kMostMetadata));
    if (!header_.metadata.try_emplace(key_, std::move(value)).second)
      refuse(fmt::format("the metadata '{}' twice", key_));
    return true;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    bool in_tensor = place_ == Place::tensor || place_ == Place::shape || place_ == Place::offsets;
    std::string where = in_tensor ? fmt::format("tensor '{}'", name_) : "the header";
    raise<FileError>(kTag, "'{}': {} has {}", path_, where, what);
  }

  const std::string& path_;
  SafetensorsHeader header_;
  Place place_ = Place::start;
  bool has_metadata_ = false;
  std::string key_, name_;
  std::optional<Dtype> dtype_;
  std::optional<Dims> shape_, offsets_;
};

void check_names(const std::vector<TensorInfo>& by_name, const std::string& path) {
  auto twice = std::ranges::adjacent_find(by_name, {}, &TensorInfo::name);
  if (twice != by_name.end())
    raise<FileError>(kTag, "'{}': tensor '{}' is there twice", path, twice->name);
}

void check_size(const TensorInfo& tensor, int64_t data_bytes, const std::string& path) {
  expect<FileError>(tensor.begin <= tensor.end && tensor.end <= data_bytes, kTag,
                    "'{}': tensor '{}' lies at bytes {} to {} of {}", path, tensor.name,
                    tensor.begin, tensor.end, data_bytes);
  expect<FileError>(byte_count(tensor.shape, tensor.dtype) == tensor.end - tensor.begin, kTag,
                    "'{}': tensor '{}' is {} of {}, which does not take its {} bytes", path,
                    tensor.name, name_of(tensor.dtype), tensor.shape, tensor.end - tensor.begin);
}

/// One tensor after the other, from the first byte to the last.
void check_cover(const std::vector<TensorInfo>& tensors, int64_t data_bytes,
                 const std::string& path) {
  std::vector<const TensorInfo*> by_place;
  for (const TensorInfo& tensor : tensors) by_place.push_back(&tensor);
  std::ranges::sort(by_place, {}, [](const TensorInfo* t) { return std::pair(t->begin, t->end); });
  int64_t covered = 0;
  const TensorInfo* before = nullptr;
  for (const TensorInfo* tensor : by_place) {
    if (tensor->begin < covered)
      raise<FileError>(kTag, "'{}': tensors '{}' and '{}' overlap", path, before->name,
                       tensor->name);
    expect<FileError>(tensor->begin == covered, kTag, "'{}': bytes {} to {} belong to no tensor",
                      path, covered, tensor->begin);
    covered = tensor->end;
    before = tensor;
  }
  expect<FileError>(covered == data_bytes, kTag, "'{}': bytes {} to {} belong to no tensor", path,
                    covered, data_bytes);
}

}  // namespace

SafetensorsHeader parse_header(std::string_view text, int64_t data_bytes, const std::string& path) {
  expect<FileError>(text.starts_with('{'), kTag, "'{}': the header does not start with '{{'", path);
  Reader reader(path);
  bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  check(parsed, "a header that is not read throws");
  SafetensorsHeader header = std::move(reader).take();
  std::ranges::sort(header.tensors, {}, &TensorInfo::name);
  check_names(header.tensors, path);
  for (const TensorInfo& tensor : header.tensors) check_size(tensor, data_bytes, path);
  check_cover(header.tensors, data_bytes, path);
  return header;
}

std::string format_header(std::span<const TensorInfo> tensors, const Metadata& metadata) {
  expect<ValueError>(tensors.size() <= kMostTensors, kTag, "{} tensors, more than the limit of {}",
                     tensors.size(), kMostTensors);
  expect<ValueError>(metadata.size() <= kMostMetadata, kTag,
                     "{} entries of metadata, more than the limit of {}", metadata.size(),
                     kMostMetadata);
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [key, value] : metadata) {
    expect<ValueError>(is_plain_text(key), kTag, "'{}' cannot be a name in metadata", key);
    header[kMetadataKey][key] = escaped_utf8(value);
  }
  for (const TensorInfo& tensor : tensors) {
    expect<ValueError>(tensor.name != kMetadataKey && is_plain_text(tensor.name), kTag,
                       "'{}' cannot be a tensor's name", tensor.name);
    header[tensor.name] = {
        {"dtype", name_of(tensor.dtype)},
        {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
        {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    raise<ValueError>(kTag, "a name is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  expect<ValueError>(text.size() <= size_t{kLongestHeader}, kTag,
                     "a header of {} bytes, more than the limit of {}", text.size(),
                     kLongestHeader);
  return text;
}

}  // namespace brim::io
