// What a data set is known by again, and which of its images cannot be read: for a training that
// would rather know before it starts than in its ninetieth epoch. A loader reads only as much of a
// file as a crop needs (`Dataset::read_part`), and so may never meet a damaged end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "brim/data/dataset.h"

namespace brim::data {

/// An image that cannot be read, and why.
struct BadPicture {
  int64_t index;
  std::string reason;
};

struct CheckedImages {
  std::vector<BadPicture> bad;  ///< by their indices
  /// Changes with any pixel, size or label of those that can be read, and with their order.
  uint64_t contents = 0;
};

/// Reads every image whole, at full size, in `workers` threads, and keeps none. With 0 workers in
/// the calling thread. Throws what reading throws beside `FileError`.
CheckedImages check_images(const Dataset& dataset, int workers);

/// Changes with what the images are called, their labels and their order, and with the names of
/// the classes: a number that is the same where nobody added, removed or renamed one. Reads none.
/// `folder` that names begin with does not count: the same files may lie elsewhere.
uint64_t names_checksum(const Dataset& dataset, std::string_view folder = "");

}  // namespace brim::data
