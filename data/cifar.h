// CIFAR-10 and CIFAR-100 as their "binary version" has them (Krizhevsky, "Learning Multiple Layers
// of Features from Tiny Images", 2009): records of a label and 32 x 32 pixels, and a text file with
// the names of the classes. Not for the pickled Python version.
//
// The files are untrusted: lengths, labels and the list of names are checked when they are opened.
// Labels are then in memory, a byte each; images stay in the files and are read one at a time. To
// have the format of a folder found out, use `open_dataset` (data/open_dataset.h).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brim/data/dataset.h"
#include "brim/io/input_file.h"

namespace brim::data {

class Cifar : public Dataset {
 public:
  /// Height and width of every image, in pixels.
  static constexpr int kSide = 32;

  /// Opens one split of `root`, "train" or "val". With the files data_batch_1.bin to
  /// data_batch_5.bin, test_batch.bin and batches.meta.txt it is CIFAR-10; with train.bin, test.bin
  /// and fine_label_names.txt, CIFAR-100 with its 100 fine classes. The test images are "val".
  ///
  /// Throws `FileError` naming the file that is missing, has no whole number of records or none at
  /// all, has a label out of range, or not a name for each class; `ValueError` for another split.
  Cifar(const std::string& root, std::string_view split);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t label(int64_t index) const override;
  /// Always at full size.
  Image read(int64_t index, int target) const override;
  /// `path/data_batch_2.bin, image 17`: counted within that file.
  std::string describe(int64_t index) const override;
  /// Classes without an image.
  std::vector<std::string> notes(size_t first) const override;

 private:
  int64_t record_bytes() const;
  void add_file(const std::string& path);
  /// The file of image `index`, and its place in it.
  std::pair<const io::InputFile&, int64_t> locate(int64_t index) const;

  /// One past the largest value of each byte of labels that begins a record; the last is the class.
  std::vector<int> ranges_;
  std::vector<std::string> class_names_;
  std::deque<io::InputFile> files_;
  /// One past the last image of each file.
  std::vector<int64_t> file_ends_;
  std::vector<uint8_t> labels_;
  std::string note_;
};

/// Whether a file of CIFAR-10 or CIFAR-100 is in `root`.
bool has_cifar(const std::string& root);

}  // namespace brim::data
