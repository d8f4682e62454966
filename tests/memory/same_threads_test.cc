#include "brim/memory/plan/same_threads.h"

#include <doctest/doctest.h>

#include "brim/base/random.h"
#include "brim/memory/plan/check_packing.h"
#include "brim/memory/plan/pack.h"

using namespace brim;
using namespace brim::memory;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kAlign = 64;

/// As a training step has them: some live on until backward, others go at once.
std::vector<Lifetime> random_step(RandomStream& random) {
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(n)));
  };
  const int64_t steps = 5 + below(60);
  std::vector<Lifetime> lives;
  for (int64_t t = 0; t < 2 * steps; ++t) {
    const int64_t size = below(4) == 0 ? 1 + below(100'000) : (1 + below(8)) * kMiB / 4;
    const bool is_saved = t < steps && below(2) == 0;
    lives.push_back({t, is_saved ? 2 * steps - t : t + 1 + below(3), size});
  }
  return lives;
}

}  // namespace

TEST_CASE("same threads: bytes that change threads, by hand") {
  const std::vector<Lifetime> lives{{0, 1, 4 * kMiB}, {1, 2, 4 * kMiB}, {2, 3, 2 * kMiB}};
  const auto between = [&](std::vector<int64_t> offsets, int threads) {
    return bytes_between_threads(lives, offsets, threads);
  };
  CHECK(between({0, 0, 0}, 1) == 0);
  // The second thread's half of the small one is of the first one's half of the large one.
  CHECK(between({0, 0, 0}, 2) == kMiB);
  CHECK(between({0, 0, kMiB}, 2) == 0);
  CHECK(between({0, 4 * kMiB, 8 * kMiB}, 2) == 0);  // nothing was there
  CHECK(between({0, 2 * kMiB, 8 * kMiB}, 2) == 2 * kMiB);
  // Of four threads' quarters, of a half MiB each, only the first stays.
  CHECK(between({0, 0, 0}, 4) == 3 * kMiB / 2);
  // What lies between is forgotten after 64 MiB of others, and small buffers do not count.
  std::vector<Lifetime> far{{0, 1, 4 * kMiB}, {1, 2, 64 * kMiB}, {2, 3, 2 * kMiB}};
  const std::vector<int64_t> apart{0, 4 * kMiB, 0};
  CHECK(bytes_between_threads(far, apart, 2) == 0);
  far[1].size -= 1;
  CHECK(bytes_between_threads(far, apart, 2) == kMiB);
  CHECK(bytes_between_threads(std::vector<Lifetime>{{0, 1, kMiB}, {1, 2, 65535}},
                              std::vector<int64_t>{0, 0}, 2) == 0);
}

TEST_CASE("same threads: a buffer moves to where its threads had the bytes") {
  // Beside what lives throughout, at 0, there is room for 4 MiB.
  const std::vector<Lifetime> lives{
      {0, 9, kMiB}, {0, 1, 4 * kMiB}, {1, 2, 2 * kMiB}, {2, 3, 4 * kMiB}};
  const std::vector<int64_t> before{0, kMiB, kMiB, kMiB};
  CHECK(bytes_between_threads(lives, before, 2) == 2 * kMiB);
  const std::vector<int64_t> after = with_same_threads(lives, before, 5 * kMiB, kAlign, 2);
  CHECK(after == std::vector<int64_t>{0, kMiB, 2 * kMiB, kMiB});
  CHECK(bytes_between_threads(lives, after, 2) == 0);
  CHECK(with_same_threads(lives, before, 5 * kMiB, kAlign, 1) == before);
}

TEST_CASE("same threads: packings of random steps stay packings of their height, and get better") {
  RandomStream random(RandomKey{1}, 0);
  int64_t all_before = 0, all_after = 0;
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    const std::vector<Lifetime> lives = random_step(random);
    const Packing packing = pack(lives, {.alignment = kAlign, .nodes = 1000});
    for (const int threads : {2, 3, 16}) {
      const std::vector<int64_t> offsets =
          with_same_threads(lives, packing.offsets, packing.height, kAlign, threads);
      CHECK_NOTHROW(check_packing(lives, offsets, packing.height, kAlign));
      const int64_t before = bytes_between_threads(lives, packing.offsets, threads);
      const int64_t after = bytes_between_threads(lives, offsets, threads);
      CHECK(after <= before);
      CHECK(with_same_threads(lives, packing.offsets, packing.height, kAlign, threads) == offsets);
      all_before += before;
      all_after += after;
    }
  }
  CHECK(all_after < all_before / 2);
}
