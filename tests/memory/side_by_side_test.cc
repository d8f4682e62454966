// Parts of work run once each, on states that no two threads share, and an exception ends them.
#include "brim/memory/plan/side_by_side.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

using brim::memory::side_by_side;

TEST_CASE("each part is done once, and each thread has a state of its own") {
  for (int64_t count : {0, 1, 2, 7, 10'000}) {
    CAPTURE(count);
    std::vector<int> done(static_cast<size_t>(count));
    std::atomic<int64_t> states = 0;
    side_by_side(
        count,
        [&] {
          ++states;
          return std::vector<int64_t>();
        },
        [&](std::vector<int64_t>& mine, int64_t i) {
          mine.push_back(i);  // a race, were it another's too
          ++done[static_cast<size_t>(i)];
        });
    CHECK(states >= 1);
    CHECK(states <= std::max<int64_t>(count, 1));
    CHECK(done == std::vector<int>(static_cast<size_t>(count), 1));
  }
}

TEST_CASE("what a part throws is thrown, and no part begins afterwards") {
  std::atomic<int64_t> calls = 0;
  auto none = [] { return 0; };
  CHECK_THROWS_WITH_AS(side_by_side(1'000'000'000, none,
                                    [&](int, int64_t i) {
                                      ++calls;
                                      if (i == 10) throw std::runtime_error("the tenth");
                                    }),
                       "the tenth", std::runtime_error);
  CHECK(calls >= 11);
  CHECK(calls < 1'000'000'000);
}
