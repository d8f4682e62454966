#include "brim/data/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "brim/base/error.h"
#include "brim/data/picture_files.h"
#include "brim/data/read_file.h"

namespace brim::data {
namespace {

constexpr const char* kTag = "image_folder";

/// The first name that `of` has and `others`, sorted too, lacks; "" for none.
std::string first_beyond(const std::vector<std::string>& of,
                         const std::vector<std::string>& others) {
  auto name = std::ranges::find_if(
      of, [&](const std::string& n) { return !std::ranges::binary_search(others, n); });
  return name == of.end() ? "" : *name;
}

/// The names of the class folders in `root`, sorted.
std::vector<std::string> list_classes(const std::string& root, LeftOut& left_out) {
  std::vector<std::string> names = find_folders(root, left_out);
  expect<FileError>(!names.empty(), kTag,
                    "expected class folders in '{}', as in root/<class>/<name>.jpg; found none",
                    root);
  return names;
}

}  // namespace

ImageFolder::ImageFolder(std::string root, ImageFolderOptions options)
    : root_(std::move(root)), options_(std::move(options)) {
  LeftOut left_out;
  const std::vector<std::string> folders = list_classes(root_, left_out);
  class_names_ = options_.classes.empty() ? folders : options_.classes;
  expect<ValueError>(std::ranges::is_sorted(class_names_), kTag,
                     "expected classes that are sorted");
  const std::string unknown = first_beyond(folders, class_names_);
  expect<FileError>(unknown.empty(), kTag,
                    "'{}/{}' is no class folder: there is no such class among {}", root_, unknown,
                    class_names_.size());
  for (const std::string& name : class_names_)
    add_class(name, std::ranges::binary_search(folders, name), left_out);
  expect<FileError>(size() > 0, kTag, "no class folder in '{}' has a {} file", root_,
                    kPictureEndings);
  names_.shrink_to_fit();
  name_ends_.shrink_to_fit();
  if (!left_out.empty())
    notes_.push_back(fmt::format("passed over in '{}': {}", root_, data::describe(left_out)));
  if (const std::string missing = classes_without_images(*this); !missing.empty())
    notes_.push_back(fmt::format("'{}': {}", root_, missing));
}

void ImageFolder::add_class(const std::string& name, bool has_folder, LeftOut& left_out) {
  const std::string folder = root_ + "/" + name;
  std::string found;
  std::vector<std::pair<size_t, size_t>> places;  // in `found`: views would dangle as it grows
  LeftOut others;
  if (has_folder)
    find_pictures(folder, others, [&](std::string_view path) {
      places.emplace_back(found.size(), path.size());
      found += path;
    });
  const bool may_be_empty = !options_.classes.empty();
  expect<FileError>(!places.empty() || may_be_empty, kTag, "the class folder '{}' has no {} file{}",
                    folder, kPictureEndings,
                    others.empty() ? "" : ", but " + data::describe(others));
  for (const auto& [kind, count] : others) left_out[kind] += count;
  auto view = [&](auto place) { return std::string_view(found).substr(place.first, place.second); };
  std::ranges::sort(places, {}, view);
  for (auto place : places) {
    names_ += view(place);
    name_ends_.push_back(names_.size());
  }
  class_ends_.push_back(size());
}

void ImageFolder::check_index(int64_t index) const {
  expect<ValueError>(index >= 0 && index < size(), kTag, "expected an index below {}, got {}",
                     size(), index);
}

std::string_view ImageFolder::file_name(int64_t index) const {
  const uint64_t begin = index == 0 ? 0 : name_ends_[index - 1];
  return std::string_view(names_).substr(begin, name_ends_[index] - begin);
}

int64_t ImageFolder::label(int64_t index) const {
  check_index(index);
  return std::ranges::upper_bound(class_ends_, index) - class_ends_.begin();
}

std::string ImageFolder::describe(int64_t index) const {
  const std::string& folder = class_names_[label(index)];
  std::string_view name = file_name(index);
  std::string path;
  path.reserve(root_.size() + folder.size() + name.size() + 2);
  path.append(root_).append("/").append(folder).append("/").append(name);
  return path;
}

Image ImageFolder::read(int64_t index, int target) const {
  const std::string path = describe(index);
  return decode_image(read_file(path, options_.max_file_bytes), path, decoding(index, target));
}

ImagePart ImageFolder::read_part(int64_t index, int target, const ChooseBox& wanted) const {
  const std::string path = describe(index);
  return decode_part(read_file(path, options_.max_file_bytes), path, wanted,
                     decoding(index, target));
}

DecodeOptions ImageFolder::decoding(int64_t index, int target) const {
  return {.target = target,
          .max_pixels = options_.max_pixels,
          .exif = options_.exif,
          .note = [this, index](const std::string& fault) {
            std::lock_guard lock(mutex_);
            if (noted_.insert(index).second) notes_.push_back(fault);
          }};
}

std::vector<std::string> ImageFolder::notes(size_t first) const {
  std::lock_guard lock(mutex_);
  return {notes_.begin() + static_cast<ptrdiff_t>(std::min(first, notes_.size())), notes_.end()};
}

std::shared_ptr<const ImageFolder> open_split(const std::string& root, std::string_view split,
                                              ImageFolderOptions options) {
  expect<ValueError>(split == "train" || split == "val", kTag,
                     "expected the split 'train' or 'val', got '{}'", split);
  const std::string train = root + "/train", val = root + "/val";
  LeftOut ignored;
  std::vector<std::string> classes = list_classes(train, ignored);
  const std::string unknown = first_beyond(list_classes(val, ignored), classes);
  expect<FileError>(unknown.empty(), kTag,
                    "the class folder '{}' is in '{}' but not in '{}': nothing would be trained on",
                    unknown, val, train);
  if (split == "val") options.classes = std::move(classes);
  return std::make_shared<const ImageFolder>(split == "train" ? train : val, std::move(options));
}

}  // namespace brim::data
