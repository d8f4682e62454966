#include "brim/data/cifar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "brim/base/error.h"
#include "brim/data/read_file.h"

namespace brim::data {
namespace {

constexpr const char* kTag = "cifar";
constexpr int64_t kPlane = int64_t{Cifar::kSide} * Cifar::kSide;
constexpr int64_t kMaxNameBytes = 1 << 16;

/// What tells CIFAR-10 from CIFAR-100.
struct Version {
  const char* name;
  std::vector<std::string> train, val;
  const char* names;
  /// One past the largest value of each byte of labels; the last are the classes.
  std::vector<int> labels;
};

const std::array<Version, 2>& versions() {
  static const std::array<Version, 2> all{
      Version{"CIFAR-10",
              {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
               "data_batch_5.bin"},
              {"test_batch.bin"},
              "batches.meta.txt",
              {10}},
      Version{"CIFAR-100", {"train.bin"}, {"test.bin"}, "fine_label_names.txt", {20, 100}}};
  return all;
}

bool exists(const std::string& root, const std::string& name) {
  std::error_code ignored;
  return std::filesystem::exists(root + "/" + name, ignored);
}

/// The version of which `root` has a file, or null.
const Version* find_version(const std::string& root) {
  for (const Version& version : versions())
    for (const auto& names : {version.train, version.val})
      for (const std::string& name : names)
        if (exists(root, name)) return &version;
  return nullptr;
}

/// One name a line; empty lines do not count.
std::vector<std::string> read_names(const std::string& path, size_t classes) {
  std::vector<uint8_t> bytes = read_file(path, kMaxNameBytes);
  std::vector<std::string> names;
  for (auto rest = std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
       !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    expect<FileError>(names.size() < classes, kTag, "'{}' names more than {} classes", path,
                      classes);
    names.emplace_back(line);
  }
  expect<FileError>(names.size() == classes, kTag, "'{}' names {} classes, expected {}", path,
                    names.size(), classes);
  return names;
}

}  // namespace

Cifar::Cifar(const std::string& root, std::string_view split) {
  expect<ValueError>(split == "train" || split == "val", kTag,
                     "expected the split 'train' or 'val', got '{}'", split);
  const Version* version = find_version(root);
  expect<FileError>(version != nullptr, kTag,
                    "expected data_batch_1.bin (CIFAR-10) or train.bin (CIFAR-100) in '{}'", root);
  ranges_ = version->labels;
  class_names_ =
      read_names(fmt::format("{}/{}", root, version->names), static_cast<size_t>(ranges_.back()));
  for (const std::string& name : split == "train" ? version->train : version->val) {
    expect<FileError>(exists(root, name), kTag, "'{}' has no file '{}', which {} needs", root, name,
                      version->name);
    add_file(root + "/" + name);
  }
  if (const std::string missing = classes_without_images(*this); !missing.empty())
    note_ = fmt::format("'{}' ({}): {}", root, split, missing);
}

int64_t Cifar::record_bytes() const { return static_cast<int64_t>(ranges_.size()) + 3 * kPlane; }

void Cifar::add_file(const std::string& path) {
  const io::InputFile& file = files_.emplace_back(path, kTag);
  expect<FileError>(file.size() > 0 && file.size() % record_bytes() == 0, kTag,
                    "'{}' has {} bytes, expected a multiple of {}: {} of labels and {} of pixels "
                    "for each image",
                    path, file.size(), record_bytes(), ranges_.size(), 3 * kPlane);
  const int64_t records = file.size() / record_bytes();
  labels_.reserve(labels_.size() + static_cast<size_t>(records));
  std::array<uint8_t, 2> values{};
  auto labels = std::span(values).first(ranges_.size());
  for (int64_t record = 0; record < records; ++record) {
    file.read(record * record_bytes(), std::as_writable_bytes(labels));
    for (size_t i = 0; i < labels.size(); ++i)
      expect<FileError>(labels[i] < ranges_[i], kTag,
                        "'{}': expected labels below {}, got {} for image {}", path, ranges_[i],
                        labels[i], record);
    labels_.push_back(labels.back());
  }
  file_ends_.push_back(size());
}

std::pair<const io::InputFile&, int64_t> Cifar::locate(int64_t index) const {
  expect<ValueError>(index >= 0 && index < size(), kTag, "expected an index below {}, got {}",
                     size(), index);
  const auto file = std::ranges::upper_bound(file_ends_, index) - file_ends_.begin();
  return {files_[static_cast<size_t>(file)], file == 0 ? index : index - file_ends_[file - 1]};
}

int64_t Cifar::label(int64_t index) const {
  locate(index);
  return labels_[static_cast<size_t>(index)];
}

Image Cifar::read(int64_t index, int /*target*/) const {
  const auto [file, record] = locate(index);
  std::array<uint8_t, 3 * kPlane> planes;
  file.read(record * record_bytes() + static_cast<int64_t>(ranges_.size()),
            std::as_writable_bytes(std::span(planes)));
  Image image(kSide, kSide);
  for (size_t i = 0; i < planes.size(); ++i)
    image.pixels[i] = planes[i % 3 * kPlane + i / 3];  // red, green and blue in planes
  return image;
}

std::string Cifar::describe(int64_t index) const {
  const auto [file, record] = locate(index);
  return fmt::format("{}, image {}", file.path(), record);
}

std::vector<std::string> Cifar::notes(size_t first) const {
  return first > 0 || note_.empty() ? std::vector<std::string>{} : std::vector{note_};
}

bool has_cifar(const std::string& root) { return find_version(root) != nullptr; }

}  // namespace brim::data
