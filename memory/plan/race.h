// Two searches side by side that end as if they had run in turns, slice by slice, on one core: the
// first to finish is the one with the earlier slice, and of the same slice the first of the two. So
// the answer does not depend on the number of cores, nor on how busy they are. The packer's own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "brim/memory/plan/tree_search.h"

namespace brim::memory::packing {

/// `make(stream)`, for the streams 0 and 1, returns a unique_ptr to a search with
/// `Outcome run(int64_t nodes)`. It is called, and the search runs, on a thread of its own, and
/// must share nothing with the other that changes.
template <class Make>
class Race {
 public:
  using SearchPtr = std::invoke_result_t<Make, int>;
  using Search = typename SearchPtr::element_type;
  static constexpr int64_t kSlice = 1000;  // nodes

  Race(const Make& make, int64_t nodes, const std::function<bool()>& stop)
      : make_(make), slices_(nodes / (2 * kSlice) + 1), stop_(stop) {}

  /// The search that finished first, or null where none did.
  Search* run() {
    // Many problems need no second thread.
    searches_[0] = make_(0);
    run_slice(0, 0);
    if (finish_ == kNever && slices_ > 1) {
      auto other = std::async(std::launch::async, [this] {
        searches_[1] = make_(1);
        run_slices(1, 0);
      });
      try {
        run_slices(0, 1);
      } catch (...) {
        stopped_ = true;  // or the other would be waited for to its end
        throw;
      }
      other.get();
    }
    return finish_ == kNever ? nullptr : search(static_cast<int>(finish_ % 2));
  }
  /// Of a stream; null where it was not needed. Where another has finished, its state depends on
  /// how the two ran.
  Search* search(int stream) const { return searches_[static_cast<size_t>(stream)].get(); }
  /// Nodes of both together that it took.
  int64_t nodes() const { return (finish_ == kNever ? slices_ : finish_ / 2 + 1) * 2 * kSlice; }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  void run_slices(int64_t stream, int64_t slice) {
    for (; slice < slices_ && 2 * slice + stream < finish_ && !stopped_; ++slice) {
      if (stream == 0 && stop_ && stop_()) stopped_ = true;
      run_slice(stream, slice);
    }
  }

  void run_slice(int64_t stream, int64_t slice) {
    if (searches_[static_cast<size_t>(stream)]->run(kSlice) == Outcome::unfinished) return;
    int64_t mine = 2 * slice + stream, first = finish_;
    while (mine < first && !finish_.compare_exchange_weak(first, mine)) {
    }
  }

  const Make& make_;
  int64_t slices_;
  const std::function<bool()>& stop_;
  std::array<SearchPtr, 2> searches_;
  std::atomic<int64_t> finish_ = kNever;  // twice the slice, and the stream
  std::atomic<bool> stopped_ = false;
};

}  // namespace brim::memory::packing
