#include "brim/data/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <span>

#include "brim/base/error.h"

namespace brim::data {
namespace {

constexpr const char* kTag = "idx";

// A file starts with two zero bytes, the type of its elements, the number of dimensions; then the
// size of each as 32 bits, the highest byte first; then the elements.
constexpr uint8_t kUnsignedBytes = 0x08;
constexpr int kImageDimensions = 3, kLabelDimensions = 1;
constexpr int64_t header_bytes(int dimensions) { return 4 + 4 * dimensions; }

void read_bytes(const io::InputFile& file, int64_t offset, std::span<uint8_t> to) {
  file.read(offset, std::as_writable_bytes(to));
}

/// The number of dimensions of a file of unsigned bytes.
int read_dimensions(const io::InputFile& file) {
  std::array<uint8_t, 4> magic{};
  expect<FileError>(file.size() >= 4, kTag, "'{}' has {} bytes, too few for IDX", file.path(),
                    file.size());
  read_bytes(file, 0, magic);
  expect<FileError>(magic[0] != 0x1F || magic[1] != 0x8B, kTag,
                    "'{}' is compressed: run gunzip on it first", file.path());
  expect<FileError>(magic[0] == 0 && magic[1] == 0, kTag,
                    "'{}' is not IDX: expected it to start with the bytes 00 00, got {:02x}",
                    file.path(), fmt::join(magic, " "));
  expect<FileError>(magic[2] == kUnsignedBytes, kTag,
                    "'{}' has elements of type {:#04x}, expected {:#04x} (unsigned bytes)",
                    file.path(), magic[2], kUnsignedBytes);
  return magic[3];
}

template <int dimensions>
std::array<int64_t, dimensions> read_sizes(const io::InputFile& file) {
  std::array<uint8_t, 4 * dimensions> bytes{};
  expect<FileError>(file.size() >= header_bytes(dimensions), kTag,
                    "'{}' has {} bytes, too few for its header of {}", file.path(), file.size(),
                    header_bytes(dimensions));
  read_bytes(file, 4, bytes);
  std::array<int64_t, dimensions> sizes{};
  for (size_t i = 0; i < bytes.size(); ++i) sizes[i / 4] = sizes[i / 4] << 8 | bytes[i];
  return sizes;
}

void check_length(const io::InputFile& file, int64_t expected, const std::string& what) {
  expect<FileError>(file.size() == expected, kTag, "'{}' has {} bytes, expected {} for {}",
                    file.path(), file.size(), expected, what);
}

/// Both files' dimensions together, so that exchanged files are told from damaged ones.
void check_dimensions(const io::InputFile& images, const io::InputFile& labels) {
  const int of_images = read_dimensions(images), of_labels = read_dimensions(labels);
  expect<FileError>(of_images != kLabelDimensions || of_labels != kImageDimensions, kTag,
                    "'{}' holds labels and '{}' holds images: the two files are swapped",
                    images.path(), labels.path());
  expect<FileError>(of_images == kImageDimensions, kTag,
                    "expected images in {} dimensions, got {} in '{}'{}", kImageDimensions,
                    of_images, images.path(),
                    of_images == kLabelDimensions ? ", which looks like labels" : "");
  expect<FileError>(of_labels == kLabelDimensions, kTag,
                    "expected labels in {} dimension, got {} in '{}'{}", kLabelDimensions,
                    of_labels, labels.path(),
                    of_labels == kImageDimensions ? ", which looks like images" : "");
}

/// The first path that exists of MNIST's two spellings.
std::optional<std::string> find(const std::string& root, std::string_view stem,
                                std::string_view kind, std::string_view ending) {
  for (char separator : {'-', '.'}) {
    std::string path = fmt::format("{}/{}{}{}{}", root, stem, separator, kind, ending);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return {};
}

std::string find_or_refuse(const std::string& root, std::string_view stem, std::string_view kind) {
  if (auto path = find(root, stem, kind, "")) return *path;
  auto compressed = find(root, stem, kind, ".gz");
  expect<FileError>(!compressed, kTag, "'{}' is compressed: run gunzip on it first",
                    compressed.value_or(""));
  raise<FileError>(kTag, "expected '{}/{}-{}' (or '{}.{}'), and there is none", root, stem, kind,
                   stem, kind);
}

}  // namespace

Idx::Idx(const IdxFiles& files, int64_t classes) : images_(files.images, kTag) {
  io::InputFile labels(files.labels, kTag);
  check_dimensions(images_, labels);
  const auto [count, height, width] = read_sizes<kImageDimensions>(images_);
  const auto [label_count] = read_sizes<kLabelDimensions>(labels);
  expect<FileError>(count == label_count, kTag, "'{}' holds {} images, but '{}' holds {} labels",
                    images_.path(), count, labels.path(), label_count);
  expect<FileError>(count > 0, kTag, "'{}' holds no images", images_.path());
  // Sides are below 2^32, so their product may overflow: divided instead.
  expect<FileError>(height > 0 && width > 0 && height <= kMaxPixels / width, kTag,
                    "'{}' claims images of {} x {} pixels, expected 1 to {} of them",
                    images_.path(), width, height, kMaxPixels);
  check_length(images_, header_bytes(kImageDimensions) + count * height * width,
               fmt::format("{} images of {} x {} pixels", count, width, height));
  check_length(labels, header_bytes(kLabelDimensions) + count, fmt::format("{} labels", count));
  height_ = static_cast<int>(height);
  width_ = static_cast<int>(width);
  labels_.resize(static_cast<size_t>(count));
  read_bytes(labels, header_bytes(kLabelDimensions), labels_);

  const auto largest = std::ranges::max_element(labels_);
  const bool is_given = classes != 0;
  if (!is_given) classes = int64_t{*largest} + 1;
  expect<FileError>(*largest < classes, kTag, "'{}': expected labels below {}, got {} for image {}",
                    labels.path(), classes, *largest, largest - labels_.begin());
  for (int64_t i = 0; i < classes; ++i) class_names_.push_back(std::to_string(i));
  const std::set<uint8_t> used(labels_.begin(), labels_.end());
  if (const auto count = static_cast<int64_t>(used.size());
      is_given ? count < classes : 2 * count < classes)
    note_ = fmt::format("'{}': {}; the largest label is {}, of image {}", labels.path(),
                        classes_without_images(*this), *largest, largest - labels_.begin());
}

void Idx::check_index(int64_t index) const {
  expect<ValueError>(index >= 0 && index < size(), kTag, "expected an index below {}, got {}",
                     size(), index);
}

int64_t Idx::label(int64_t index) const {
  check_index(index);
  return labels_[static_cast<size_t>(index)];
}

Image Idx::read(int64_t index, int /*target*/) const {
  check_index(index);
  Image image(width_, height_);
  // The grey bytes go to the last third of the image and are spread from its start: what is
  // written, up to byte 3 i + 2, stays below the next to be read, 2 * pixels + i + 1.
  const size_t pixels = image.pixels.size() / 3;
  auto grey = std::span(image.pixels).last(pixels);
  read_bytes(images_, header_bytes(kImageDimensions) + index * static_cast<int64_t>(pixels), grey);
  for (size_t i = 0; i < pixels; ++i) std::fill_n(&image.pixels[3 * i], 3, uint8_t{grey[i]});
  return image;
}

std::string Idx::describe(int64_t index) const {
  check_index(index);
  return fmt::format("{}, image {}", images_.path(), index);
}

std::vector<std::string> Idx::notes(size_t first) const {
  return first > 0 || note_.empty() ? std::vector<std::string>{} : std::vector{note_};
}

IdxFiles idx_files(const std::string& root, std::string_view split) {
  expect<ValueError>(split == "train" || split == "val", kTag,
                     "expected the split 'train' or 'val', got '{}'", split);
  const std::string stem = split == "train" ? "train" : "t10k";
  return {find_or_refuse(root, stem + "-images", "idx3-ubyte"),
          find_or_refuse(root, stem + "-labels", "idx1-ubyte")};
}

bool has_idx(const std::string& root) {
  for (std::string_view stem : {"train", "t10k"})
    for (std::string_view ending : {"", ".gz"})
      if (find(root, fmt::format("{}-images", stem), "idx3-ubyte", ending) ||
          find(root, fmt::format("{}-labels", stem), "idx1-ubyte", ending))
        return true;
  return false;
}

std::shared_ptr<const Idx> open_idx(const std::string& root, std::string_view split) {
  const IdxFiles files = idx_files(root, split);
  const int64_t classes = split == "train" ? 0 : Idx(idx_files(root, "train")).classes();
  return std::make_shared<const Idx>(files, classes);
}

}  // namespace brim::data
