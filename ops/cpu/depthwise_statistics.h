// What depthwise convolution tells of its result while that is in registers, for the statistics of
// y: the sums of some rows of images at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/conv_shape.h"
#include "brim/ops/cpu/channel_moments.h"

namespace brim::cpu {

/// What a sweep tells of each tile of its result, a vector of channels at a time: nothing, or
/// what the statistics want.
struct NoStatistics {
  static constexpr NoStatistics starting_at(int64_t) { return {}; }
  static constexpr NoStatistics of_pixel(int64_t) { return {}; }
  template <class V, int kCount>
  void operator()(const V (&)[kCount], int64_t) const {}
};
/// Of float32, where vectors fill the channels.
struct RowStatistics {
  const PartSums* sums;
  bool is_first;      ///< of its part
  int64_t start = 0;  ///< the pixel that comes first

  RowStatistics starting_at(int64_t i) const { return {sums, is_first, i}; }
  RowStatistics of_pixel(int64_t i) const { return {sums, is_first && i == start}; }
  template <class V, int kCount>
  void operator()(const V (&values)[kCount], int64_t channel) const {
    if constexpr (std::is_same_v<V, Vector<float>>) sums->add(values, channel, is_first);
  }
};

/// Statistics of y, gathered as it is computed: of some rows of images at a time.
class RowMoments {
 public:
  RowMoments(const ConvShape& shape, int64_t threads, ScratchCursor& scratch)
      : shape_(shape),
        rows_of_unit_(std::max<int64_t>(pixels_of_part(shape.pixels()) / shape.q, 1)),
        threads_(std::min(threads, units())),
        moments_(units(), shape.c, scratch),
        parts_(scratch.take<char>(threads_ * bytes_of_part())) {}

  int64_t threads() const { return threads_; }

  /// Calls row(i, statistics) for every row of the result; each thread its own `row`, which
  /// row_of_thread(thread) makes.
  template <class RowOfThread>
  void run(const RowOfThread& row_of_thread) const {
    parallel_pieces(units(), threads_, [&](int64_t thread, int64_t begin, int64_t end) {
      auto row = row_of_thread(thread);
      ScratchCursor cursor(parts_ + thread * bytes_of_part());
      const PartSums sums(shape_.c, cursor);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit * rows_of_unit_, last = first + rows_of(unit);
        for (int64_t i = first; i < last; ++i) row(i, RowStatistics{&sums, i == first});
        sums.finish(moments_, unit, pixels_of(unit), 0, shape_.c);
      }
      stream_fence();
    });
  }

  void finish(const BatchStatistics& to) const {
    join_moments(
        moments_, [&](int64_t unit) { return pixels_of(unit); }, to);
  }

 private:
  int64_t rows() const { return shape_.n * shape_.p; }
  int64_t units() const { return ceil_div(rows(), rows_of_unit_); }
  int64_t rows_of(int64_t unit) const {
    return std::min(rows_of_unit_, rows() - unit * rows_of_unit_);
  }
  int64_t pixels_of(int64_t unit) const { return rows_of(unit) * shape_.q; }
  int64_t bytes_of_part() const {
    ScratchCursor cursor(nullptr);
    PartSums(shape_.c, cursor);
    return cursor.used();
  }

  ConvShape shape_;
  int64_t rows_of_unit_, threads_;
  PartMoments moments_;
  char* parts_;
};

}  // namespace brim::cpu
