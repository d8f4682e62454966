// The winner that the tournament names is the one that comparing all of them gives, whatever comes
// and goes, and it is found without doing so.
#include "brim/autograd/tournament.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "brim/base/random.h"

using brim::autograd::Tournament;

namespace {

struct Line {
  double speed;
  int64_t since;
};

double score(const Line& line, int64_t now) {
  return line.speed * static_cast<double>(now - line.since + 1);
}

}  // namespace

TEST_CASE("an empty one has no winner, and one that is alone wins") {
  Tournament tournament;
  CHECK(tournament.winner(0) == Tournament::kNobody);
  tournament.set(5, 1, 0);
  CHECK(tournament.winner(0) == 5);
  CHECK(tournament.has(5));
  CHECK(!tournament.has(4));
  tournament.remove(5);
  tournament.remove(99);
  CHECK(tournament.winner(7) == Tournament::kNobody);
}

TEST_CASE("the faster one wins from the moment on at which it is ahead") {
  Tournament tournament;
  tournament.set(0, 1, 0);   // t + 1
  tournament.set(1, 3, 10);  // 3 (t - 9): equal at 14
  for (int64_t now : {10, 13, 14}) CHECK(tournament.winner(now) == 0);
  for (int64_t now : {15, 100}) CHECK(tournament.winner(now) == 1);
}

TEST_CASE("it agrees with comparing all of them") {
  brim::RandomStream random(brim::RandomKey{11});
  Tournament tournament;
  std::map<int, Line> lines;
  auto below = [&](uint64_t n) { return static_cast<int>(random.below(n)); };
  int64_t now = 0;
  for (int event = 0; event < 20'000; ++event) {
    now += below(3);
    const int i = below(300);
    if (below(4) == 0) {
      lines.erase(i);
      tournament.remove(i);
    } else {
      lines[i] = {1.0 + below(50), now - below(20)};
      tournament.set(i, lines[i].speed, lines[i].since);
    }
    if (below(2) == 0) continue;
    const int winner = tournament.winner(now);
    if (lines.empty()) {
      REQUIRE(winner == Tournament::kNobody);
      continue;
    }
    auto best = std::ranges::max_element(lines, {},
                                         [&](const auto& line) { return score(line.second, now); });
    REQUIRE(lines.contains(winner));
    REQUIRE(score(lines.at(winner), now) == score(best->second, now));
  }
}

TEST_CASE("ten thousand that are used in turn cost a few comparisons each") {
  brim::RandomStream random(brim::RandomKey{12});
  Tournament tournament;
  constexpr int kCount = 10'000;
  for (int i = 0; i < kCount; ++i) tournament.set(i, 1 + random.uniform(0, 1000), i);
  const int64_t before = tournament.comparisons();
  for (int64_t now = kCount; now < 3 * kCount; ++now) {
    const int winner = tournament.winner(now);
    tournament.set(winner, 1 + random.uniform(0, 1000), now);
  }
  CHECK((tournament.comparisons() - before) / (2 * kCount) < 60);  // all of them: 10,000
}
