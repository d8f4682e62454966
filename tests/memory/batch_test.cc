// The largest batch that fits is found whatever scratch does to the bytes, and with few questions.
#include "brim/memory/plan/batch.h"

#include <doctest/doctest.h>

#include <vector>

#include "brim/base/error.h"
#include "brim/base/random.h"

using namespace brim;
using namespace brim::memory;

namespace {

// The answer by asking for every batch.
int64_t largest_by_trial(const BatchSearch& search) {
  int64_t largest = 0;
  for (int64_t batch = search.least; batch <= search.most; batch += search.multiple)
    if (search.bytes(batch) <= search.limit) largest = batch;
  return largest;
}

}  // namespace

TEST_CASE("the largest batch of random programs with random scratch, by comparison with all") {
  RandomStream random{RandomKey{7}};
  int none = 0, all = 0, jumps = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    int64_t state = static_cast<int64_t>(random.below(500));
    int64_t each = 1 + static_cast<int64_t>(random.below(40));
    std::vector<int64_t> scratch(400);
    for (int64_t& bytes : scratch) bytes = static_cast<int64_t>(random.below(300));
    BatchSearch search{.bound = [&](int64_t batch) { return state + each * batch; },
                       .limit = static_cast<int64_t>(random.below(6000)),
                       .multiple = 1 + static_cast<int64_t>(random.below(9))};
    search.bytes = [&](int64_t batch) {
      return search.bound(batch) + scratch[static_cast<size_t>(batch)];
    };
    search.least = search.multiple;
    search.most = search.multiple + static_cast<int64_t>(random.below(380));
    BatchFound found = largest_batch(search);
    REQUIRE(found.batch == largest_by_trial(search));
    if (found.refused > 0) {
      REQUIRE(search.bound(found.refused) > search.limit);
      if (found.refused > search.least)
        REQUIRE(search.bound(found.refused - search.multiple) <= search.limit);
    }
    none += found.batch == 0;
    all += found.batch > search.most - search.multiple;
    jumps +=
        found.batch > search.least && search.bytes(found.batch - search.multiple) > search.limit;
  }
  CHECK(none > 50);
  CHECK(all > 50);
  CHECK(jumps > 50);  // a smaller batch does not fit
}

TEST_CASE("where scratch is small, a logarithm of questions is enough") {
  BatchSearch search{.bytes = [](int64_t batch) { return 1000 + 10 * batch + batch % 7; },
                     .bound = [](int64_t batch) { return 1000 + 10 * batch; },
                     .limit = 1000 + 10 * 54'321 + 3,
                     .most = int64_t{1} << 40};
  BatchFound found = largest_batch(search);
  CHECK(found.batch == 54'321);  // 54,321 % 7 == 1
  CHECK(found.refused == 54'322);
  CHECK(found.asked < 40);
  search.most = 54'321;
  found = largest_batch(search);
  CHECK(found.batch == 54'321);
  CHECK(found.refused == 0);
}

TEST_CASE("without a bound: one that fits, while the next larger one does not") {
  RandomStream random{RandomKey{8}};
  int smaller = 0;
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    std::vector<int64_t> bytes(200);
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = 20 * static_cast<int64_t>(i) + static_cast<int64_t>(random.below(300));
    BatchSearch search{.bytes = [&](int64_t batch) { return bytes[static_cast<size_t>(batch)]; },
                       .limit = static_cast<int64_t>(random.below(5000)),
                       .most = 199};
    BatchFound found = largest_batch(search);
    if (found.batch > 0) REQUIRE(search.bytes(found.batch) <= search.limit);
    if (found.batch < search.most) {
      REQUIRE(found.refused == found.batch + 1);
      REQUIRE(search.bytes(found.refused) > search.limit);
    }
    CHECK(found.asked <= 16);  // nine up to the last, seven between
    smaller += found.batch < largest_by_trial(search);
  }
  CHECK(smaller > 50);
}

TEST_CASE("where there is no batch to look at, that is said") {
  BatchSearch search{.most = 7, .multiple = 8};
  search.least = 8;
  CHECK_THROWS_WITH_AS(largest_batch(search), "batch: there is no multiple of 8 from 8 to 7",
                       ValueError);
}
