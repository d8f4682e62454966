#include "brim/data/open_dataset.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "brim/base/error.h"
#include "brim/data/cifar.h"
#include "brim/data/idx.h"

namespace brim::data {

namespace {

/// False where there is nothing at all; what is there but cannot be looked at is an error.
bool is_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error, ignored;
  const fs::file_type type = fs::status(path, error).type();
  const bool is_lost = type == fs::file_type::not_found && fs::is_symlink(path, ignored);
  expect<FileError>(!is_lost, "data set", "'{}' is a link that leads nowhere", path);
  expect<FileError>(type != fs::file_type::none, "data set", "'{}' cannot be examined: {}", path,
                    error.message());
  return type == fs::file_type::directory;
}

}  // namespace

DatasetFormat detect_format(const std::string& root) {
  expect<FileError>(is_folder(root), "data set", "'{}' is not a folder that can be opened", root);
  if (is_folder(root + "/train") || is_folder(root + "/val")) return DatasetFormat::image_folder;
  if (has_cifar(root)) return DatasetFormat::cifar;
  if (has_idx(root)) return DatasetFormat::idx;
  raise<FileError>("data set",
                   "found none in '{}'; looked for the folders train/<class> and val/<class> "
                   "(JPEG and PNG), data_batch_1.bin and test_batch.bin (CIFAR-10), train.bin and "
                   "test.bin (CIFAR-100), train-images-idx3-ubyte and t10k-images-idx3-ubyte "
                   "(MNIST)",
                   root);
}

std::shared_ptr<const Dataset> open_dataset(const std::string& root, std::string_view split,
                                            ImageFolderOptions pictures) {
  switch (detect_format(root)) {
    case DatasetFormat::image_folder:
      return open_split(root, split, std::move(pictures));
    case DatasetFormat::cifar:
      return std::make_shared<const Cifar>(root, split);
    case DatasetFormat::idx:
      return open_idx(root, split);
  }
  check(false, "a known format");
  return nullptr;
}

int native_size(const std::string& root) {
  switch (detect_format(root)) {
    case DatasetFormat::image_folder:
      return 0;
    case DatasetFormat::cifar:
      return Cifar::kSide;
    case DatasetFormat::idx:
      const auto images = open_idx(root, "train");
      return std::min(images->height(), images->width());
  }
  check(false, "a known format");
  return 0;
}

}  // namespace brim::data
