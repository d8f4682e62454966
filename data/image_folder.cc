#include "brim/data/image_folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "brim/base/error.h"
#include "brim/data/read_file.h"

namespace brim::data {
namespace {

constexpr const char* kTag = "image_folder";

enum class EntryKind { file, folder, other };

/// Looks through a link. Costs a system call, so that only entries whose type the directory does
/// not tell come here.
EntryKind examine(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return EntryKind::other;
  if (S_ISREG(status.st_mode)) return EntryKind::file;
  return S_ISDIR(status.st_mode) ? EntryKind::folder : EntryKind::other;
}

EntryKind kind_of(const std::string& folder, const dirent& entry) {
  if (entry.d_type == DT_REG) return EntryKind::file;
  if (entry.d_type == DT_DIR) return EntryKind::folder;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return EntryKind::other;
  return examine(folder + "/" + entry.d_name);
}

/// Calls `visit(dirent)` for each entry of `folder` that is not hidden.
template <class Visit>
void for_each_entry(const std::string& folder, const Visit& visit) {
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), &::closedir);
  if (!directory)
    raise<FileError>(kTag, "cannot open the folder '{}': {}", folder,
                     std::generic_category().message(errno));
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] != '.') visit(*entry);
  }
  if (errno != 0)
    raise<FileError>(kTag, "cannot list the folder '{}': {}", folder,
                     std::generic_category().message(errno));
}

bool is_image_name(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kEndings{"jpg", "jpeg", "png"};
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  auto same_letter = [](char c, char lower) {
    return (c >= 'A' && c <= 'Z' ? c + 32 : c) == lower;
  };
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) {
    return std::ranges::equal(name.substr(dot + 1), ending, same_letter);
  });
}

/// The first name that only one of two sorted lists has; "" where they are equal.
std::pair<std::string, bool> first_difference(const std::vector<std::string>& a,
                                              const std::vector<std::string>& b) {
  auto [in_a, in_b] = std::ranges::mismatch(a, b);
  if (in_a == a.end() && in_b == b.end()) return {"", false};
  bool only_in_a = in_b == b.end() || (in_a != a.end() && *in_a < *in_b);
  return {only_in_a ? *in_a : *in_b, only_in_a};
}

}  // namespace

std::vector<std::string> list_classes(const std::string& root) {
  std::vector<std::string> names;
  for_each_entry(root, [&](const dirent& entry) {
    if (kind_of(root, entry) == EntryKind::folder) names.emplace_back(entry.d_name);
  });
  expect<FileError>(!names.empty(), kTag,
                    "expected class folders in '{}', as in root/<class>/<name>.jpg; found none",
                    root);
  std::ranges::sort(names);
  return names;
}

ImageFolder::ImageFolder(std::string root, ImageFolderOptions options)
    : root_(std::move(root)), options_(options), class_names_(list_classes(root_)) {
  for (const std::string& name : class_names_) add_class(name);
  names_.shrink_to_fit();
  name_ends_.shrink_to_fit();
}

void ImageFolder::add_class(const std::string& name) {
  const std::string folder = root_ + "/" + name;
  std::string found;
  std::vector<std::pair<size_t, size_t>> places;  // in `found`: views would dangle as it grows
  for_each_entry(folder, [&](const dirent& entry) {
    std::string_view file = entry.d_name;
    if (!is_image_name(file) || kind_of(folder, entry) != EntryKind::file) return;
    places.emplace_back(found.size(), file.size());
    found += file;
  });
  expect<FileError>(!places.empty(), kTag, "the class folder '{}' has no .jpg, .jpeg or .png file",
                    folder);
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
  std::string path = describe(index);
  std::vector<uint8_t> bytes = read_file(path, options_.max_file_bytes);
  return decode_image(bytes, path, {.target = target, .max_pixels = options_.max_pixels});
}

ImagePart ImageFolder::read_part(int64_t index, int target, const ChooseBox& wanted) const {
  std::string path = describe(index);
  std::vector<uint8_t> bytes = read_file(path, options_.max_file_bytes);
  return decode_part(bytes, path, wanted, {.target = target, .max_pixels = options_.max_pixels});
}

std::shared_ptr<const ImageFolder> open_split(const std::string& root, std::string_view split,
                                              ImageFolderOptions options) {
  expect<ValueError>(split == "train" || split == "val", kTag,
                     "expected the split 'train' or 'val', got '{}'", split);
  const std::string train = root + "/train", val = root + "/val";
  auto [name, only_in_train] = first_difference(list_classes(train), list_classes(val));
  expect<FileError>(name.empty(), kTag,
                    "the class folder '{}' is in '{}' but not in '{}'; both need the same classes",
                    name, only_in_train ? train : val, only_in_train ? val : train);
  return std::make_shared<const ImageFolder>(split == "train" ? train : val, options);
}

}  // namespace brim::data
