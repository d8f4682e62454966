// The packer: never an overlap, never a height below what is possible, the best where that can be
// found by trying everything, and the same answer every time.
#include "brim/memory/plan/pack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "brim/base/error.h"
#include "brim/base/random.h"
#include "brim/memory/plan/check_packing.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/packing_families.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

/// Tries every order of offsets, each buffer on top of all before it that live at the same time: of
/// a best packing, the order of its offsets gives one that is no higher. It leaves only what must
/// become too high: at any time, those that come lie above those that are there, and one another.
struct Exhaustive {
  const std::vector<Lifetime>& lifetimes;
  int64_t best = kMost;  // only lower ones are looked for
  std::vector<int64_t> offsets = std::vector<int64_t>(lifetimes.size(), -1);

  void place(size_t placed, int64_t last_offset, size_t last, int64_t height) {
    if (height >= best || least_height(last_offset) >= best) return;
    if (placed == lifetimes.size()) {
      best = height;
      return;
    }
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      if (offsets[i] >= 0) continue;
      int64_t offset = 0;
      for (size_t k = 0; k < lifetimes.size(); ++k)
        if (offsets[k] >= 0 && overlap(lifetimes[i], lifetimes[k]))
          offset = std::max(offset, offsets[k] + lifetimes[k].size);
      // Of the same offset, by number: none of these is above another.
      if (placed > 0 && std::pair(offset, i) < std::pair(last_offset, last)) continue;
      offsets[i] = offset;
      place(placed + 1, offset, i, std::max(height, offset + lifetimes[i].size));
      offsets[i] = -1;
    }
  }

  int64_t least_height(int64_t last_offset) const {
    int64_t least = 0;
    for (const Lifetime& at : lifetimes) {
      int64_t top = last_offset, to_come = 0;
      for (size_t i = 0; i < lifetimes.size(); ++i) {
        const Lifetime& life = lifetimes[i];
        if (life.lower > at.lower || at.lower >= life.upper) continue;
        if (offsets[i] < 0)
          to_come += life.size;
        else
          top = std::max(top, offsets[i] + life.size);
      }
      least = std::max(least, to_come == 0 ? 0 : top + to_come);
    }
    return least;
  }
};

int64_t best_height(const std::vector<Lifetime>& lifetimes) {
  Exhaustive search{lifetimes};
  search.place(0, 0, 0, 0);
  return search.best;
}

/// The largest sum of live sizes, at each beginning.
int64_t live_bound(const std::vector<Lifetime>& lifetimes) {
  int64_t bound = 0;
  for (const Lifetime& at : lifetimes) {
    int64_t live = 0;
    for (const Lifetime& life : lifetimes)
      if (life.lower <= at.lower && at.lower < life.upper) live += life.size;
    bound = std::max(bound, live);
  }
  return bound;
}

std::vector<Lifetime> small_problem(uint64_t seed) {
  RandomStream random(RandomKey{seed});
  std::vector<Lifetime> lifetimes(2 + random.below(6));
  for (Lifetime& life : lifetimes) {
    life.lower = static_cast<int64_t>(random.below(8));
    life.upper = life.lower + 1 + static_cast<int64_t>(random.below(5));
    life.size = static_cast<int64_t>(1 + random.below(6));
  }
  return lifetimes;
}

/// The same sum lives at every time: at each tick some of two buffers' bytes go to one or two new
/// ones. A few of these have no packing at the bound.
std::vector<Lifetime> full_problem(size_t buffers, uint64_t seed) {
  constexpr int64_t kEnd = 100;
  RandomStream random(RandomKey{seed});
  std::vector<Lifetime> lifetimes;
  auto add = [&](int64_t lower, uint64_t size) {
    lifetimes.push_back({lower, kEnd, static_cast<int64_t>(size)});
  };
  for (int i = 0; i < 6; ++i) add(0, 1 + random.below(3));
  int live = 6;
  for (int64_t tick = 1; lifetimes.size() < buffers; ++tick) {
    uint64_t freed = 0;
    for (int ended = 0; ended < 2;) {
      Lifetime& life = lifetimes[random.below(lifetimes.size())];
      if (life.upper < kEnd) continue;
      life.upper = tick;
      freed += static_cast<uint64_t>(life.size);
      ++ended;
    }
    bool one = live > 4 && random.below(2) == 0;
    uint64_t first = one ? freed : 1 + random.below(freed - 1);
    add(tick, first);
    if (!one) add(tick, freed - first);
    live -= one;
  }
  return lifetimes;
}

}  // namespace

TEST_CASE("small problems are packed as low as by trying every order, and that is proved") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    auto lifetimes = small_problem(seed);
    Packing packing = pack(lifetimes);
    CHECK(packing.height == best_height(lifetimes));
    CHECK(packing.lower_bound == live_bound(lifetimes));
    CHECK(packing.proved);
  }
}

TEST_CASE("where nothing fits at the bound that is found out, and the next height proved best") {
  int above_the_bound = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    auto lifetimes = full_problem(14, seed);
    Packing packing = pack(lifetimes);
    CHECK(packing.proved);
    if (packing.height == packing.lower_bound) continue;
    ++above_the_bound;
    Exhaustive search{lifetimes, packing.height};
    search.place(0, 0, 0, 0);
    CHECK(search.best == packing.height);  // nothing lower
    CHECK(pack(lifetimes, {.capacity = packing.height - 1}).proved);
  }
  CHECK(above_the_bound > 2);
}

TEST_CASE("below the best height of a small problem nothing fits, and that is proved") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    auto lifetimes = small_problem(seed);
    int64_t best = best_height(lifetimes);
    Packing fitting = pack(lifetimes, {.capacity = best});
    CHECK(fitting.height <= best);
    CHECK(fitting.proved == (fitting.height == best));
    if (std::ranges::max(lifetimes, {}, &Lifetime::size).size == best) continue;
    Packing refused = pack(lifetimes, {.capacity = best - 1});
    CHECK(refused.height >= best);
    CHECK(refused.proved);
  }
}

TEST_CASE("every family at every size has a packing that stands up to the check") {
  for (const PackingFamily& family : packing_families())
    for (int64_t buffers : {1, 2, 7, 40, 150, 600, 2500})
      for (uint64_t seed : {1, 2, 3}) {
        CAPTURE(family.name);
        CAPTURE(buffers);
        CAPTURE(seed);
        PackingProblem problem = family.make(buffers, seed);
        Packing packing = pack(problem.lifetimes, {.nodes = 5'000});
        CHECK_NOTHROW(check_packing(problem.lifetimes, packing.offsets, packing.height));
        CHECK(packing.height >= packing.lower_bound);
        CHECK(packing.height <= 2 * packing.lower_bound);
        if (buffers <= 600) CHECK(packing.lower_bound == live_bound(problem.lifetimes));
        if (problem.optimum > 0) CHECK(packing.lower_bound == problem.optimum);
        if (packing.height == packing.lower_bound) CHECK(packing.proved);
      }
}

TEST_CASE("training steps and inference are packed at the bound") {
  for (int64_t buffers : {100, 1'000, 10'000, 100'000})
    for (auto* family : {training_step, inference}) {
      CAPTURE(buffers);
      Packing packing = pack(family(buffers, 5).lifetimes, {.nodes = 3 * buffers});
      CHECK(packing.height == packing.lower_bound);
      CHECK(packing.proved);
    }
}

TEST_CASE("rectangles cut into some dozens are put together again") {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    PackingProblem problem = cut_rectangle(40, seed);
    Packing packing = pack(problem.lifetimes, {.nodes = 1'000'000});
    CHECK(packing.height == problem.optimum);
  }
}

TEST_CASE("offsets are multiples of the alignment, for which sizes are rounded up") {
  for (int64_t alignment : {1, 3, 64, 4096}) {
    CAPTURE(alignment);
    auto lifetimes = random_intervals(200, 7).lifetimes;
    for (size_t i = 0; i < lifetimes.size(); ++i) lifetimes[i].size += static_cast<int64_t>(i % 5);
    auto rounded = lifetimes;
    for (Lifetime& life : rounded) life.size = (life.size + alignment - 1) / alignment * alignment;
    Packing packing = pack(lifetimes, {.alignment = alignment, .nodes = 5'000});
    CHECK(packing.height % alignment == 0);
    CHECK(packing.lower_bound == live_bound(rounded));
    CHECK_NOTHROW(check_packing(rounded, packing.offsets, packing.height, alignment));
  }
}

TEST_CASE("the same question has the same answer, and the seed is part of it") {
  auto lifetimes = cut_rectangle(300, 3).lifetimes;
  int others = 0;
  std::vector<int64_t> offsets;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    PackOptions options{.nodes = 60'000, .seed = seed};
    Packing first = pack(lifetimes, options), second = pack(lifetimes, options);
    CHECK(first.offsets == second.offsets);
    others += first.offsets != std::exchange(offsets, first.offsets);
  }
  CHECK(others > 1);  // the first is one: none came before it
}

TEST_CASE("a capacity is enough: it ends at the first packing that fits") {
  auto lifetimes = cut_rectangle(60, 1).lifetimes;
  int64_t bound = pack(lifetimes, {.nodes = 0}).lower_bound;
  Packing loose = pack(lifetimes, {.capacity = 2 * bound, .nodes = 0});
  CHECK(loose.height <= 2 * bound);
  Packing tight = pack(lifetimes, {.capacity = bound});
  CHECK(tight.height == bound);
  CHECK(tight.proved);
}

TEST_CASE("below the bound nothing fits, which needs no search") {
  auto lifetimes = random_intervals(1000, 1).lifetimes;
  int64_t bound = live_bound(lifetimes);
  Packing packing = pack(lifetimes, {.capacity = bound - 1});
  CHECK(packing.height >= bound);
  CHECK(packing.lower_bound == bound);
  CHECK(packing.proved);
}

TEST_CASE("nothing, and buffers of no bytes") {
  Packing none = pack({});
  CHECK(none.height == 0);
  CHECK(none.gap() == 0);
  CHECK(none.proved);
  std::vector<Lifetime> lifetimes{{0, 4, 0}, {1, 2, 0}, {0, 9, 8}};
  Packing packing = pack(lifetimes);
  CHECK(packing.height == 8);
  CHECK(packing.offsets == std::vector<int64_t>{0, 0, 0});
}

TEST_CASE("lifetimes are half-open: one may begin where another ends") {
  std::vector<Lifetime> lifetimes{{0, 3, 8}, {3, 9, 8}, {-5, 0, 8}};
  CHECK(pack(lifetimes).height == 8);
}

TEST_CASE("sizes and times may be as large as 64 bits hold") {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  std::vector<Lifetime> lifetimes{{kLeast, kMost, kMost / 2},
                                  {0, 1, kMost / 4},
                                  {1, kMost, kMost / 4},
                                  {kLeast, 0, kMost / 4 - 5}};
  lifetimes[2].size = 1;
  Packing packing = pack(lifetimes);
  CHECK(packing.height == kMost / 2 + kMost / 4);
  CHECK(packing.proved);
  // The second needs more than the skyline, in numbers of 64 bits.
  auto pieces = cut_rectangle(40, 2).lifetimes;
  for (Lifetime& life : pieces) life.size = life.size * 1'000'000'007 + life.lower % 2;
  CHECK(pack(pieces, {.nodes = 20'000}).height > 0);
}

TEST_CASE("a person's limit ends the search with what there is") {
  auto lifetimes = cut_rectangle(300, 4).lifetimes;
  int asked = 0;
  Packing packing = pack(lifetimes, {.nodes = kMost, .stop = [&] { return ++asked > 40; }});
  CHECK(asked > 40);
  CHECK(packing.height > packing.lower_bound);
  CHECK_FALSE(packing.proved);
  struct Interrupted {};
  CHECK_THROWS_AS(pack(lifetimes, {.nodes = kMost,
                                   .stop = [&]() -> bool {
                                     if (++asked > 100) throw Interrupted();
                                     return false;
                                   }}),
                  Interrupted);
}

TEST_CASE("what cannot be packed is refused with the buffer and its numbers") {
  auto refusal = [](std::vector<Lifetime> lifetimes, const PackOptions& options = {}) {
    return error_text<ValueError>([&] { pack(lifetimes, options); });
  };
  CHECK(refusal({{0, 1, 1}, {5, 5, 1}}) ==
        "pack: expected buffer 1 to begin before it ends, got [5, 5)");
  CHECK(refusal({{0, 1, -4}}) == "pack: expected a size from 0 of buffer 0, got -4");
  CHECK(refusal({{0, 1, kMost}, {1, 2, 1}}) ==
        "pack: expected sizes that add up to less than 2^63, got more by buffer 1");
  CHECK(refusal({{0, 1, kMost}}, {.alignment = 64}) ==
        "pack: expected sizes that add up to less than 2^63, got more by buffer 0");
  CHECK(refusal({{0, 1, 3}, {0, 1, 65}}, {.alignment = 64, .capacity = 127}) ==
        "pack: expected a capacity of at least 128 bytes, the size of buffer 1, got 127");
  CHECK(refusal({}, {.alignment = 0}) == "pack: expected an alignment above 0, got 0");
  CHECK(refusal({}, {.capacity = -1}) == "pack: expected a capacity from 0, got -1");
  CHECK(refusal({}, {.nodes = -1}) == "pack: expected a number of nodes from 0, got -1");
}
