// One parallel loop over the elements of many tensors, for kernels that gather
// (base/gathered.h). Threads get equal shares of all elements together, so that parameters that are
// too small to be shared out keep no thread waiting.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "brim/base/bytes.h"
#include "brim/base/flush_denormals.h"
#include "brim/base/gathered.h"
#include "brim/base/parallel.h"

namespace brim::cpu {

/// `Body` is called with ranges of the units that a tensor of `size` elements has `units` of, each
/// of about as many elements: `body(begin, end)`, in parallel, and afterwards, where it has it,
/// `body.finish()` once. Its results must not depend on how units are shared out.
template <class Body>
class GatheredLoop final : public Gathered {
 public:
  static GatheredLoop& of_this_thread() {
    static thread_local GatheredLoop loop;
    return loop;
  }

  /// `grain`: elements that repay a second thread.
  void add(const Body& body, int64_t size, int64_t units, int64_t grain) {
    NoParallelScope::check_absent();  // here, where a launch may throw
    gather_in(this);
    try {
      entries_.push_back({body, size, units, size_});
    } catch (const std::bad_alloc&) {  // an update must not fail
      start();
      Entry alone{body, size, units, 0};
      return run({&alone, 1}, size, grain);
    }
    size_ += size;
    grain_ = grain;
    if (gathering_depth() == 0) start_gathered();
  }

  void start() override {
    if (entries_.empty()) return;
    const struct Emptied {
      GatheredLoop& loop;
      ~Emptied() { loop.entries_.clear(), loop.size_ = 0; }  // the room is for the next update
    } emptied{*this};                                        // also where it cannot be started
    run(entries_, size_, grain_);
  }

 private:
  struct Entry {
    Body body;
    int64_t size, units, first;

    // Of this tensor, before an element of all.
    int64_t units_before(int64_t element) const {
      const int64_t before = std::clamp<int64_t>(element - first, 0, size);
      return size == 0 ? 0 : ceil_div(before * units, size);
    }
  };

  static void run(std::span<Entry> entries, int64_t size, int64_t grain) {
    const FlushDenormals flush;  // as `launch`
    parallel_for(size, grain, [&](int64_t begin, int64_t end) {
      for (Entry& each : entries) {
        const int64_t first = each.units_before(begin), last = each.units_before(end);
        if (first < last) each.body(first, last);
      }
    });
    if constexpr (requires(Body & body) { body.finish(); })
      for (Entry& each : entries) each.body.finish();
    note_batch_started();
  }

  std::vector<Entry> entries_;
  int64_t size_ = 0, grain_ = 1;
};

/// `body(begin, end)` for all elements of a tensor, gathered where there is a scope. Ranges begin
/// at multiples of 64.
template <class Body>
void gather_elements(int64_t size, int64_t grain, const Body& body) {
  constexpr int64_t kUnit = 64;
  const auto of_units = [=](int64_t begin, int64_t end) {
    body(begin * kUnit, std::min(end * kUnit, size));
  };
  GatheredLoop<decltype(of_units)>::of_this_thread().add(of_units, size, ceil_div(size, kUnit),
                                                         grain);
}

}  // namespace brim::cpu
