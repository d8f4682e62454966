// The check of a packing, against comparing every pair of buffers.
#include "brim/memory/plan/check_packing.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "brim/base/error.h"
#include "brim/base/random.h"
#include "brim/memory/plan/pack.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/packing_families.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::testing;

namespace {

bool any_pair_overlaps(const std::vector<Lifetime>& l, const std::vector<int64_t>& offsets) {
  for (size_t i = 0; i < l.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (l[i].lower < l[k].upper && l[k].lower < l[i].upper &&
          offsets[i] < offsets[k] + l[k].size && offsets[k] < offsets[i] + l[i].size)
        return true;
  return false;
}

std::string refusal(std::vector<Lifetime> lifetimes, std::vector<int64_t> offsets, int64_t height,
                    int64_t alignment = 1) {
  return error_text<InternalError>([&] { check_packing(lifetimes, offsets, height, alignment); });
}

}  // namespace

TEST_CASE("it agrees with a comparison of all pairs, also where one offset was moved") {
  int good = 0, bad = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    auto lifetimes = random_intervals(25, seed).lifetimes;
    Packing packing = pack(lifetimes, {.nodes = 0});
    RandomStream random(RandomKey{seed});
    int64_t& moved = packing.offsets[random.below(lifetimes.size())];
    moved = std::max<int64_t>(0, moved + static_cast<int64_t>(random.below(20'000)) - 10'000);
    bool overlaps = any_pair_overlaps(lifetimes, packing.offsets);
    std::string text = refusal(lifetimes, packing.offsets, 2 * packing.height);
    CHECK(contains(text, "overlap") == overlaps);
    ++(overlaps ? bad : good);
  }
  CHECK(good > 20);
  CHECK(bad > 20);
}

TEST_CASE("it names the two buffers that overlap") {
  CHECK(refusal({{0, 2, 8}, {0, 9, 4}, {1, 3, 8}}, {0, 20, 7}, 100) ==
        "check_packing: buffers 0 and 2 overlap: 8 bytes at 0 and 8 bytes at 7");
  CHECK(refusal({{0, 2, 8}, {1, 3, 8}}, {5, 5}, 100) ==
        "check_packing: buffers 1 and 0 overlap: 8 bytes at 5 and 8 bytes at 5");
  CHECK(refusal({{0, 9, 8}, {1, 3, 1}}, {0, 3}, 100) ==
        "check_packing: buffers 0 and 1 overlap: 8 bytes at 0 and 1 bytes at 3");
}

TEST_CASE("neighbours in time and in bytes do not overlap, and no bytes never do") {
  CHECK(refusal({{0, 2, 8}, {2, 4, 8}, {0, 4, 8}, {1, 3, 0}}, {0, 0, 8, 3}, 16) == "");
}

TEST_CASE("an offset outside of the packing or off the alignment is named") {
  CHECK(refusal({{0, 2, 8}}, {1}, 8) ==
        "check_packing: buffer 0 of 8 bytes at 1 ends above the height 8");
  CHECK(refusal({{0, 2, 8}}, {-8}, 8) == "check_packing: buffer 0 lies at -8, no multiple of 1");
  CHECK(refusal({{0, 2, 8}, {0, 2, 8}}, {0, 8}, 16, 16) ==
        "check_packing: buffer 1 lies at 8, no multiple of 16");
  CHECK(refusal({{0, 2, 8}}, {}, 8) == "check_packing: 0 offsets for 1 buffers");
}
