// An update's images in parts of at most so many at once: micro-batches, the last one smaller. The
// one place that knows how an update is cut, for `Trainer`, evaluation and rehearsals. To choose
// how many fit see train/batch_tuning.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace brim {

struct Part {
  int64_t first = 0, count = 0;
};

/// How many parts `images` come in with `at_once` of them in each; at least 1.
inline int64_t count_parts(int64_t images, int64_t at_once) {
  return std::max<int64_t>((images + at_once - 1) / at_once, 1);
}

inline std::vector<Part> parts_of(int64_t images, int64_t at_once) {
  std::vector<Part> parts;
  for (int64_t first = 0; first < images; first += at_once)
    parts.push_back({first, std::min(at_once, images - first)});
  return parts;
}

}  // namespace brim
