// Images in `root/<class>/...`: the folder's name is the class, whatever folders are in it.
//
// A picture is a file whose name ends in .jpg, .jpeg, .jpe, .jfif, .jif or .png, in whatever case.
// Other files are passed over, and `notes` says how many of which kind; hidden ones and __MACOSX
// are no part of the set, and not told. Classes and files are sorted by the bytes of their names,
// so labels are the same on every machine. Only directory entries are read at the start, no image
// is opened, and names are kept in one block: a folder of a million files is ready within seconds,
// in about 30 bytes a file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "brim/data/dataset.h"
#include "brim/data/decode.h"

namespace brim::data {

/// See data/picture_files.h.
using LeftOut = std::map<std::string, int64_t>;

struct ImageFolderOptions {
  /// Larger images are refused when they are read.
  int64_t max_pixels = DecodeOptions{}.max_pixels;
  /// So are larger files.
  int64_t max_file_bytes = int64_t{256} << 20;
  /// See `DecodeOptions::exif`.
  bool exif = true;
  /// The names of the classes, sorted, where they are known from elsewhere: then one may have no
  /// image here, which `notes` says. Else they are the folders in `root`, and each has images.
  std::vector<std::string> classes = {};
};

class ImageFolder : public Dataset {
 public:
  /// Lists the files. Throws `FileError` naming what is wrong: `root` is missing or not a folder,
  /// it has no class folder, one that is no class, or one without an image; a folder cannot be
  /// read; a link leads nowhere, or back to a folder that it is in.
  explicit ImageFolder(std::string root, ImageFolderOptions options = {});

  int64_t size() const override { return static_cast<int64_t>(name_ends_.size()); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t label(int64_t index) const override;
  Image read(int64_t index, int target) const override;
  ImagePart read_part(int64_t index, int target, const ChooseBox& wanted) const override;
  /// The path of the file.
  std::string describe(int64_t index) const override;
  std::vector<std::string> notes(size_t first) const override;

 private:
  void add_class(const std::string& name, bool has_folder, LeftOut& left_out);
  DecodeOptions decoding(int64_t index, int target) const;
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

  mutable std::mutex mutex_;  // of what reading adds
  mutable std::vector<std::string> notes_;
  mutable std::set<int64_t> noted_;  // images that one is of
};

/// `root/train` or `root/val` (`split`), with the classes of `root/train` in both: labels are
/// positions. A class without images in `root/val` is allowed, and noted. Throws `FileError` naming
/// the first class that `root/train` lacks, and `ValueError` for another split.
std::shared_ptr<const ImageFolder> open_split(const std::string& root, std::string_view split,
                                              ImageFolderOptions options = {});

}  // namespace brim::data
