// Parts of work run once each, on states that no two threads share, and an exception ends them.
#include "brim/memory/plan/side_by_side.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include "brim/base/parallel.h"

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
    CHECK(states >= std::min<int64_t>(count, 1));
    CHECK(states <= count);
    CHECK(done == std::vector<int>(static_cast<size_t>(count), 1));
  }
}

TEST_CASE("parts run at the same time where there are two threads") {
  if (brim::num_threads() < 2) return;
  std::atomic<int> begun = 0;
  std::atomic<bool> met = true;
  side_by_side(
      2, [] { return 0; },
      [&](int, int64_t) {
        ++begun;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (begun < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        if (begun < 2) met = false;
      });
  CHECK(met);
}

TEST_CASE("what a part throws, or who makes a state, is thrown, and the rest is left out") {
  std::atomic<int64_t> calls = 0;
  auto none = [] { return 0; };
  CHECK_THROWS_WITH_AS(side_by_side(1'000'000'000, none,
                                    [&](int, int64_t i) {
                                      ++calls;
                                      if (i == 10) throw std::runtime_error("the eleventh");
                                    }),
                       "the eleventh", std::runtime_error);
  CHECK(calls >= 11);
  auto throws = []() -> int { throw std::runtime_error("no state"); };
  CHECK_THROWS_AS(side_by_side(3, throws, [&](int, int64_t) {}), std::runtime_error);
  CHECK(calls < 1'000'000'000);
}
