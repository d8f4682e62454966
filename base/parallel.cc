#include "brim/base/parallel.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "brim/base/error.h"
#include "brim/base/thread_limit.h"

namespace brim {
namespace {

constexpr int kMostOnSmallMachines = 256;

/// For the thread that calls it: OpenMP keeps the number by thread.
int take_cores(int asked) {
  static std::atomic<bool> said = false;
  const int threads = omp_get_num_procs();
  omp_set_num_threads(threads);
  if (said.exchange(true)) return threads;
  const std::string line =
      fmt::format("threads: OMP_NUM_THREADS asks for {}, more than {}: taking {}\n", asked,
                  most_threads(), threads);
  std::fputs(line.c_str(), stderr);  // which may be closed: that is no error
  return threads;
}

// Before the first loop of the first thread.
[[maybe_unused]] const int threads_at_start = num_threads();

}  // namespace

int most_threads() {
  static const int most = std::max(kMostOnSmallMachines, omp_get_num_procs());
  return most;
}

int num_threads() {
  const int threads = omp_get_max_threads();
  return threads <= most_threads() ? threads : take_cores(threads);
}

void set_num_threads(int threads) {
  expect<ValueError>(threads >= 1 && threads <= most_threads(), "threads",
                     "expected from 1 to {} threads, got {}", most_threads(), threads);
  omp_set_num_threads(threads);
}

}  // namespace brim
