// The largest batch whose step fits, found by asking plans: no step runs, and none runs out.
//
// The bytes of a step are not monotonic in the batch, because the scratch of libraries is not: a
// batch may fit where a smaller one does not. So bisection finds some batch that fits; the largest
// is one above which every other is refused. A bound that is monotonic refuses most of them at
// once, and each that is left is asked by itself.
#pragma once

#include <cstdint>
#include <functional>

namespace brim::memory {

struct BatchSearch {
  /// What a step with `batch` samples reserves; where that is above `limit`, anything from above
  /// it to that will do.
  std::function<int64_t(int64_t batch)> bytes;
  /// At most that, and for a larger batch never less. Without one, `bytes` are taken to be so:
  /// what is found fits while the next larger one does not, and a still larger one may.
  std::function<int64_t(int64_t batch)> bound;
  int64_t limit = 0;     ///< bytes
  int64_t least = 1;     ///< the smallest batch that is looked at; a multiple of `multiple`
  int64_t most = 1;      ///< the largest
  int64_t multiple = 1;  ///< only multiples of it are looked at
};

struct BatchFound {
  int64_t batch = 0;  ///< 0: none fits
  /// Batches from this one on are beyond the bound, this one where there is none; 0: none up to
  /// `most` is.
  int64_t refused = 0;
  int64_t asked = 0;  ///< how often `bytes` and `bound` were asked
};

/// Throws `ValueError` where there is no batch to look at.
BatchFound largest_batch(const BatchSearch& search);

}  // namespace brim::memory
