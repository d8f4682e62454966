// Feeds arbitrary bytes to the CIFAR reader as files: it must open them or throw FileError, hold no
// more than their size and a constant, and give images and labels in their bounds.
//
// An input is a byte of choices, the length of the list of names (two bytes, the lower first), the
// list, and the images: whole files, or, by choice, labels alone, which get black pixels, so that
// short inputs have many records.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "brim/base/error.h"
#include "brim/data/cifar.h"
#include "brim/tests/support/allocation_limit.h"
#include "brim/tests/support/temp_folder.h"

namespace {

using brim::data::Cifar;
using brim::testing::TempFolder;
using Bytes = std::vector<uint8_t>;

enum Choice : uint8_t { kHundred = 1, kLabelsAlone = 2, kTrain = 4 };

constexpr size_t kPixelBytes = 3 * Cifar::kSide * Cifar::kSide;
// An image, 100 names, paths, messages.
constexpr size_t kConstantBytes = 1 << 16;

Bytes with_pixels(std::span<const uint8_t> labels, size_t label_bytes) {
  Bytes file;
  for (; labels.size() >= label_bytes; labels = labels.subspan(label_bytes)) {
    file.insert(file.end(), labels.begin(), labels.begin() + static_cast<ptrdiff_t>(label_bytes));
    file.resize(file.size() + kPixelBytes);
  }
  return file;
}

/// Writes the files of one split; returns their bytes.
size_t write_images(const TempFolder& folder, std::span<const uint8_t> bytes, uint8_t choices) {
  const Bytes file = choices & kLabelsAlone ? with_pixels(bytes, choices & kHundred ? 2 : 1)
                                            : Bytes(bytes.begin(), bytes.end());
  if (choices & kHundred) {
    folder.write(choices & kTrain ? "train.bin" : "test.bin", file);
  } else if (!(choices & kTrain)) {
    folder.write("test_batch.bin", file);
  } else {
    for (char number : {'1', '2', '3', '4', '5'})
      folder.write(std::string("data_batch_") + number + ".bin", file);
    return 5 * file.size();
  }
  return file.size();
}

void read_all(const Cifar& cifar) {
  const int64_t step = std::max<int64_t>(1, cifar.size() / 8);
  for (int64_t i = 0; i < cifar.size(); i += step) {
    brim::check(cifar.label(i) >= 0 && cifar.label(i) < cifar.classes(),
                "a label is below the classes");
    brim::check(cifar.read(i, 0).pixels.size() == kPixelBytes, "an image has 32 x 32 pixels");
    brim::check(!cifar.describe(i).empty(), "an image has a name");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return -1;
  static const TempFolder folders[] = {{}, {}};  // CIFAR-10 and CIFAR-100: one would hide the other
  const uint8_t choices = data[0];
  const TempFolder& folder = folders[choices & kHundred];
  const auto rest = std::span(data, size).subspan(3);
  const size_t of_names = std::min<size_t>(data[1] | data[2] << 8, rest.size());
  folder.write(choices & kHundred ? "fine_label_names.txt" : "batches.meta.txt",
               rest.first(of_names));
  const size_t bytes = write_images(folder, rest.subspan(of_names), choices);
  brim::testing::AllocationLimit limit(of_names + bytes + kConstantBytes);
  try {
    read_all(Cifar(folder.path(), choices & kTrain ? "train" : "val"));
  } catch (const brim::FileError&) {
  }
  return 0;
}
