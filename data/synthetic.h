// Random pixels and labels made once, for timing a training step without a loader. Nothing can be
// learned from them; for a dataset that needs no files, see `data/shapes.h`. The same options give
// the same bytes. They lie in plain host memory, which no account counts: `to_device`
// (data/device_batch.h) makes tensors of them, `SyntheticSource` (train/batch_source.h) feeds a
// trainer.
#pragma once

#include <cstdint>
#include <vector>

namespace brim::data {

struct SyntheticOptions {
  /// Images.
  int64_t count = 0;
  /// Height and width in pixels.
  int size = 0;
  int64_t classes = 10;
  uint64_t seed = 0;
};

struct SyntheticBatch {
  int size = 0;
  /// count x size x size x 3 (NHWC), uniform in 0..255.
  std::vector<uint8_t> pixels;
  /// count labels, uniform in [0, classes).
  std::vector<int64_t> labels;
};

/// Throws `ValueError` naming the option that is below 1 or too large.
SyntheticBatch make_synthetic(SyntheticOptions options);

}  // namespace brim::data
