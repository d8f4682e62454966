#include "brim/base/parallel.h"

#include "brim/base/error.h"

namespace brim {

int num_threads() { return omp_get_max_threads(); }

void set_num_threads(int threads) {
  expect<ValueError>(threads >= 1, "threads", "expected at least 1 thread, got {}", threads);
  omp_set_num_threads(threads);
}

}  // namespace brim
