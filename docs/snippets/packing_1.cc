// Packing: a small problem, its bound, an answer within a capacity; bytes that change threads; the
// rules of one section.
#include <algorithm>
#include <vector>

#include "brim/base/error.h"
#include "brim/memory/plan/check_packing.h"
#include "brim/memory/plan/pack.h"
#include "brim/memory/plan/same_threads.h"

using namespace brim;

namespace {

void small_problem() {
  // [small]
  std::vector<memory::Lifetime> lifetimes{{.lower = 0, .upper = 4, .size = 2},   // a
                                          {.lower = 0, .upper = 2, .size = 3},   // b
                                          {.lower = 2, .upper = 6, .size = 3},   // c
                                          {.lower = 4, .upper = 6, .size = 2}};  // d
  memory::Packing packing = memory::pack(lifetimes);
  check(packing.lower_bound == 5, "a and b, a and c, c and d");
  check(packing.height == 5 && packing.proved, "so nothing is lower");
  memory::check_packing(lifetimes, packing.offsets, packing.height);
  // [/small]

  // [capacity]
  memory::Packing refused = memory::pack(lifetimes, {.capacity = 4});
  check(refused.height > 4 && refused.proved, "more than 4 bytes live at once");
  memory::Packing aligned = memory::pack(lifetimes, {.alignment = 4});
  check(aligned.height == 8, "each of them takes 4 bytes now");
  // [/capacity]
}

void same_threads() {
  // [threads]
  const int64_t MiB = 1 << 20;
  std::vector<memory::Lifetime> steps{{0, 1, 8 * MiB}, {1, 2, 4 * MiB}, {2, 3, 8 * MiB}};
  std::vector<int64_t> offsets{0, 0, 0};
  check(memory::bytes_between_threads(steps, offsets, 2) == 4 * MiB, "2 MiB there, and 2 MiB back");
  offsets = memory::with_same_threads(steps, offsets, 8 * MiB, 64, 2);
  check(offsets[1] == 2 * MiB, "the middles meet");
  check(memory::bytes_between_threads(steps, offsets, 2) == 0, "each half stays");
  // [/threads]
}

// [tighten]
struct Waiting {
  int64_t r, p;  // where it lies at the lowest, and its size
};

/// Raises the bounds of what waits in one section; false where it does not fit below the capacity.
bool tighten(std::vector<Waiting>& section, int64_t capacity) {
  std::ranges::sort(section, {}, &Waiting::r);
  int64_t total = 0, rise = capacity + 1;
  for (const Waiting& w : section) total += w.p;
  int64_t threshold = capacity - total;
  for (const Waiting& w : section)
    if (w.r <= threshold) rise = std::min(rise, w.r + w.p);
  for (Waiting& w : section)
    if (w.r > threshold) w.r = std::max(w.r, rise);  // 2: it lies above another
  int64_t above = 0;
  for (size_t i = section.size(); i-- > 0;) {
    above += section[i].p;
    if (section[i].r + above > capacity) return false;  // 3, and 1 for the lowest
  }
  return true;
}
// [/tighten]

void rules() {
  // [worked]
  std::vector<Waiting> rises{{.r = 1, .p = 4}, {.r = 2, .p = 1}};
  check(tighten(rises, 6) && rises[1].r == 5, "the second cannot lie below the first");
  std::vector<Waiting> fails{{.r = 0, .p = 1}, {.r = 2, .p = 3}, {.r = 3, .p = 2}};
  check(!tighten(fails, 6), "five bytes above 2 are too many");
  // [/worked]
}

}  // namespace

int main() {
  small_problem();
  same_threads();
  rules();
}
