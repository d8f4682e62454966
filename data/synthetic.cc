#include "brim/data/synthetic.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/base/random.h"

namespace brim::data {
namespace {

void check_range(const char* what, int64_t value, int64_t highest) {
  expect<ValueError>(value >= 1 && value <= highest, "synthetic",
                     "expected {} between 1 and {}, got {}", what, highest, value);
}

}  // namespace

SyntheticBatch make_synthetic(SyntheticOptions options) {
  // The bounds keep count * size * size * 3 far from overflowing.
  check_range("a count", options.count, int64_t{1} << 24);
  check_range("a size", options.size, 1 << 14);
  check_range("classes", options.classes, INT64_MAX);

  SyntheticBatch batch;
  batch.size = options.size;
  int64_t bytes = options.count * options.size * options.size * 3;
  try {
    batch.pixels.resize(static_cast<size_t>(bytes));
  } catch (const std::bad_alloc&) {
    raise<ValueError>("synthetic", "{} images of {} x {} pixels want {}, more than the machine has",
                      options.count, options.size, options.size, format_bytes(bytes));
  }
  RandomKey key = derive(RandomKey{options.seed}, "synthetic");
  for (size_t i = 0; i < batch.pixels.size(); i += 16) {
    auto words = philox(key, 0, i / 16);
    std::memcpy(batch.pixels.data() + i, words.data(),
                std::min<size_t>(16, batch.pixels.size() - i));
  }
  RandomStream random(derive(key, "labels"));
  for (int64_t i = 0; i < options.count; ++i)
    batch.labels.push_back(
        static_cast<int64_t>(random.below(static_cast<uint64_t>(options.classes))));
  return batch;
}

}  // namespace brim::data
