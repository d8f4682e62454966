// Images in `root/<class>/<name>.{jpg,jpeg,png}`: the folder's name is the class.
//
// Classes and files are sorted by the bytes of their names, so labels are the same on every
// machine. Only directory entries are read at the start, no image is opened, and names are kept
// in one block: a folder of a million files is ready within seconds, in about 30 bytes a file.
// Subfolders of a class, hidden files and files with other endings are not looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brim/data/dataset.h"
#include "brim/data/decode.h"

namespace brim::data {

struct ImageFolderOptions {
  /// Larger images are refused when they are read.
  int64_t max_pixels = DecodeOptions{}.max_pixels;
  /// So are larger files.
  int64_t max_file_bytes = int64_t{256} << 20;
};

class ImageFolder : public Dataset {
 public:
  /// Lists the files. Throws `FileError` naming the folder when `root` is missing or not a
  /// folder, has no class folder, or a class folder has no image.
  explicit ImageFolder(std::string root, ImageFolderOptions options = {});

  int64_t size() const override { return static_cast<int64_t>(name_ends_.size()); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t label(int64_t index) const override;
  Image read(int64_t index, int target) const override;
  ImagePart read_part(int64_t index, int target, const ChooseBox& wanted) const override;
  /// The path of the file.
  std::string describe(int64_t index) const override;

 private:
  void add_class(const std::string& name);
  std::string_view file_name(int64_t index) const;
  void check_index(int64_t index) const;

  std::string root_;
  ImageFolderOptions options_;
  std::vector<std::string> class_names_;
  /// One past the last image of each class.
  std::vector<int64_t> class_ends_;
  /// All file names without separators, and where each ends.
  std::string names_;
  std::vector<uint64_t> name_ends_;
};

/// The names of the class folders in `root`, sorted. Throws `FileError` where there are none.
std::vector<std::string> list_classes(const std::string& root);

/// `root/train` or `root/val` (`split`), after checking that both have the same classes: labels
/// are positions, so one missing class would shift all after it. Throws `FileError` naming the
/// first class that only one of them has, and `ValueError` for another split.
std::shared_ptr<const ImageFolder> open_split(const std::string& root, std::string_view split,
                                              ImageFolderOptions options = {});

}  // namespace brim::data
