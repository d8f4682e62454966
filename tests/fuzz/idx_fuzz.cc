// Feeds arbitrary bytes to the IDX reader as two files: it must open them or throw FileError, hold
// no more than their size and a constant, and give images and labels in their bounds, also where
// the file of images shrinks while it is open.
//
// An input is a byte of choices, the length of the labels' file (two bytes, the lower first), that
// file, and the file of images.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "brim/base/error.h"
#include "brim/data/idx.h"
#include "brim/tests/support/allocation_limit.h"
#include "brim/tests/support/memory_file.h"

namespace {

using brim::data::Idx;

// One image in colour; paths, names of 256 classes, messages.
constexpr size_t kConstantBytes = 3 * Idx::kMaxPixels + (1 << 16);

void read_all(const Idx& idx) {
  const int64_t step = std::max<int64_t>(1, idx.size() / 8);
  for (int64_t i = 0; i < idx.size(); i += step) {
    brim::check(idx.label(i) >= 0 && idx.label(i) < idx.classes(), "a label is below the classes");
    brim::data::Image image = idx.read(i, 0);
    brim::check(image.width == idx.width() && image.height == idx.height(),
                "an image has the size of all");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return -1;
  static const brim::testing::MemoryFile labels, images;
  const bool shrinks = data[0] & 1;
  const int64_t classes = data[0] & 2 ? 10 : 0;
  const auto files = std::span(data, size).subspan(3);
  const size_t of_labels = std::min<size_t>(data[1] | data[2] << 8, files.size());
  labels.set(files.first(of_labels));
  images.set(files.subspan(of_labels));
  brim::testing::AllocationLimit limit(size + kConstantBytes);
  try {
    Idx idx({.images = images.path(), .labels = labels.path()}, classes);
    if (shrinks) images.set(files.subspan(of_labels).first((size - 3 - of_labels) / 2));
    read_all(idx);
  } catch (const brim::FileError&) {
  }
  return 0;
}
