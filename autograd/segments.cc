#include "brim/autograd/segments.h"

#include <atomic>

namespace brim::autograd {

uint64_t new_segments(uint64_t count) {
  static std::atomic<uint64_t> next = 1;  // 0: no segment
  return next.fetch_add(count);
}

}  // namespace brim::autograd
