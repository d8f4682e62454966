// A data set by its folder alone: which of the formats that brim reads is in it is found out. A
// program that knows its format opens it itself: `open_split` (data/image_folder.h), `Cifar`
// (data/cifar.h), `Idx` (data/idx.h). Data that needs no files: `Shapes` (data/shapes.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "brim/data/dataset.h"
#include "brim/data/image_folder.h"

namespace brim::data {

enum class DatasetFormat {
  image_folder,  ///< train/<class>/* and val/<class>/*, JPEG or PNG
  cifar,         ///< CIFAR-10 or CIFAR-100 in binary
  idx            ///< MNIST's names and others in its format
};

/// By the names in `root`, in this order: a folder train or val, a file of CIFAR, a file of MNIST's
/// name. Throws `FileError` listing them where there is none, `root` is no folder, or train or val
/// cannot be looked at or is a link that leads nowhere.
DatasetFormat detect_format(const std::string& root);

/// The split "train" or "val" of the data set in `root`; `pictures` is for an image folder. Throws
/// `FileError` for what is missing or damaged, `ValueError` for another split.
std::shared_ptr<const Dataset> open_dataset(const std::string& root, std::string_view split,
                                            ImageFolderOptions pictures = {});

/// The shorter side of the images where the format gives all of them the same size (32 for CIFAR,
/// 28 for MNIST), in pixels, and 0 where it does not. Throws `FileError`.
int native_size(const std::string& root);

}  // namespace brim::data
