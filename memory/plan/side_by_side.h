// Work that falls into parts which do not depend on one another, on as many threads as parallel
// loops have. Who takes which part is chance: what a part gives must depend on its number alone.
// The planners' own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <system_error>
#include <vector>

#include "brim/base/parallel.h"
#include "brim/base/stop.h"

namespace brim::memory {

/// Calls `work(state, i)` once for each i of [0, count); `make()` gives each thread a state of its
/// own. What one of the calls throws is thrown here, when all threads have ended; the rest of the
/// parts may be left out then. Where no more threads can be had, those that there are do it all.
template <class Make, class Work>
void side_by_side(int64_t count, const Make& make, const Work& work) {
  std::atomic<int64_t> next = 0;
  auto run = [&, asked = stop_asked()] {
    const StopScope same(asked);
    try {
      auto state = make();
      for (int64_t i = next++; i < count; i = next++) work(state, i);
    } catch (...) {
      next = count;
      throw;
    }
  };
  const int64_t threads = std::min<int64_t>(count, num_threads());
  std::vector<std::future<void>> others;
  try {
    for (int64_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, run));
  } catch (const std::system_error&) {
  }
  if (count > 0) run();
  for (std::future<void>& other : others) other.get();
}

}  // namespace brim::memory
