// MNIST's files, and others in its format (IDX, Y. LeCun): one file of grey images, one of labels.
// Plain files only: a .gz is an error that says so.
//
// The files are untrusted: type, dimensions, counts, exact lengths and labels are checked when they
// are opened. Labels are then in memory, a byte each; images stay in the file and are read one at a
// time. To have the format of a folder found out, use `open_dataset` (data/open_dataset.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brim/data/dataset.h"
#include "brim/io/input_file.h"

namespace brim::data {

struct IdxFiles {
  std::string images, labels;  ///< paths
};

class Idx : public Dataset {
 public:
  /// Pixels that an image may have: with it, no more memory is taken than the size of the files
  /// and a constant.
  static constexpr int64_t kMaxPixels = int64_t{1} << 20;

  /// Opens both files. `classes` is their number, or 0 for one more than the largest label; they
  /// are called "0", "1", ... Throws `FileError` naming the file and what is wrong with it: not
  /// IDX, other than unsigned bytes in three dimensions (images) or one (labels), the two files
  /// swapped, different counts, none at all, a length other than the header says, a label beyond
  /// the classes.
  explicit Idx(const IdxFiles& files, int64_t classes = 0);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t label(int64_t index) const override;
  /// Always at full size; grey is repeated in all three channels.
  Image read(int64_t index, int target) const override;
  /// `path/train-images-idx3-ubyte, image 17`.
  std::string describe(int64_t index) const override;
  /// Classes without an image, where they were given, or most have none: a wrong label may be
  /// large.
  std::vector<std::string> notes(size_t first) const override;

  /// Of every image, in pixels.
  int height() const { return height_; }
  int width() const { return width_; }

 private:
  void check_index(int64_t index) const;

  io::InputFile images_;
  int height_ = 0, width_ = 0;
  std::vector<uint8_t> labels_;
  std::vector<std::string> class_names_;
  std::string note_;
};

/// The files of `split`, "train" or "val", in `root`: MNIST's names, train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, each also spelt with a
/// dot (train-images.idx3-ubyte). Throws `FileError` for a file that is missing or compressed,
/// `ValueError` for another split.
IdxFiles idx_files(const std::string& root, std::string_view split);

/// Whether one of those files, compressed or not, is in `root`.
bool has_idx(const std::string& root);

/// Opens them. The classes are those of the training labels, for both splits.
std::shared_ptr<const Idx> open_idx(const std::string& root, std::string_view split);

}  // namespace brim::data
