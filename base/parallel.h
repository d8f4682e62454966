// Parallel loops on OpenMP, the pool that oneDNN uses too. Call them from the training thread
// only: libgomp keeps a pool per calling thread, so loader threads hold a `NoParallelScope`.
//
// Ranges are split in one fixed way, so that which thread computes what depends on (size,
// grain, thread count) alone and results are the same in every run. Bodies take subnormal numbers
// for 0 (flush_denormals.h).
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "brim/base/error.h"
#include "brim/base/flush_denormals.h"

namespace brim {

/// While it lives, parallel loops are an `InternalError` on this thread: for loader threads, each
/// of which libgomp would give a pool of its own.
class NoParallelScope {
 public:
  NoParallelScope() : before_(std::exchange(forbidden_, true)) {}
  ~NoParallelScope() { forbidden_ = before_; }
  NoParallelScope(const NoParallelScope&) = delete;
  NoParallelScope& operator=(const NoParallelScope&) = delete;

  static void check_absent() { check(!forbidden_, "this thread keeps out of parallel loops"); }

 private:
  static inline thread_local bool forbidden_ = false;
  bool before_;
};

/// Threads that a parallel loop uses. At the start: OMP_NUM_THREADS or the cores we may use.
int num_threads();
/// Sets it; throws `ValueError` below 1.
void set_num_threads(int threads);

/// Calls `body(begin, end)` on contiguous pieces of [0, size), one per thread, in parallel when
/// there are at least two pieces of `grain` iterations. The body must not throw.
template <class Body>
void parallel_for(int64_t size, int64_t grain, const Body& body) {
  NoParallelScope::check_absent();
  if (size <= 0) return;
  int64_t pieces = std::min<int64_t>(omp_get_max_threads(), size / std::max<int64_t>(grain, 1));
  if (pieces <= 1 || omp_in_parallel()) {
    const FlushDenormals flush;
    body(int64_t{0}, size);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(pieces))
  {
    int64_t count = omp_get_num_threads(), id = omp_get_thread_num();
    int64_t begin = size * id / count, end = size * (id + 1) / count;
    const FlushDenormals flush(/*ends=*/id == 0);
    if (begin < end) body(begin, end);
  }
}

/// As `parallel_for`, with the piece's number: `body(piece, begin, end)`. The pieces are cut by
/// `pieces` alone, never by the number of threads, so sums kept per piece and added in order
/// are the same with any number of threads.
template <class Body>
void parallel_pieces(int64_t size, int64_t pieces, const Body& body) {
  NoParallelScope::check_absent();
  if (size <= 0) return;
  pieces = std::clamp<int64_t>(pieces, 1, size);
#pragma omp parallel if (pieces > 1 && !omp_in_parallel())
  {
    const FlushDenormals flush(/*ends=*/omp_get_thread_num() == 0);
#pragma omp for schedule(static) nowait
    for (int64_t piece = 0; piece < pieces; ++piece)
      body(piece, size * piece / pieces, size * (piece + 1) / pieces);
  }
}

}  // namespace brim
