// Which engine is the fastest, by timers of the test's, and what a table of engines remembers.
#include "brim/ops/cudnn_benchmark.h"

#include <doctest/doctest.h>

#include <vector>

#include "brim/memory/source.h"
#include "brim/ops/engine_table.h"
#include "brim/ops/tf32.h"

using namespace brim;

namespace {

/// A timer of engines that take so long, each time the next of its list and then the last.
EngineTimer timer_of(std::vector<std::vector<double>> seconds) {
  return [seconds,
          calls = std::vector<size_t>(seconds.size())](size_t i) mutable -> std::optional<double> {
    if (seconds[i].empty()) return {};
    return seconds[i][std::min(calls[i]++, seconds[i].size() - 1)];
  };
}

}  // namespace

TEST_CASE("fastest engine: the least median, and of equal ones the first") {
  CHECK(fastest_engine(3, timer_of({{3}, {1}, {2}})) == 1);
  CHECK(fastest_engine(3, timer_of({{2}, {2}, {2}})) == 0);
  CHECK(fastest_engine(2, timer_of({{2}, {1}})) == 1);
}

TEST_CASE("fastest engine: the first run does not count, and single slow ones do not decide") {
  CHECK(fastest_engine(2, timer_of({{9, 1}, {2}})) == 0);
  CHECK(fastest_engine(2, timer_of({{0.1, 3}, {2}})) == 1);
  CHECK(fastest_engine(2, timer_of({{1, 1, 90, 80, 1}, {2}})) == 0);
}

TEST_CASE("fastest engine: what cannot run is left out, also where it fails later") {
  CHECK(fastest_engine(3, timer_of({{}, {2}, {1}})) == 2);
  CHECK(fastest_engine(2, timer_of({{}, {}})) == std::nullopt);
  CHECK(fastest_engine(0, timer_of({})) == std::nullopt);
  int calls = 0;
  const auto fails_later = [&](size_t i) -> std::optional<double> {
    if (i == 0 && ++calls > 2) return {};
    return i == 0 ? 1 : 2;
  };
  CHECK(fastest_engine(2, fails_later) == 1);
  CHECK(calls == 3);  // and is not asked again
}

TEST_CASE("fastest engine: one candidate is not timed, and all others round by round") {
  std::vector<size_t> asked;
  const auto timer = [&](size_t i) -> std::optional<double> {
    asked.push_back(i);
    return 1;
  };
  CHECK(fastest_engine(1, timer) == 0);
  CHECK(asked.empty());
  fastest_engine(3, timer);
  REQUIRE(asked.size() % 3 == 0);
  CHECK(asked.size() > 3);
  for (size_t i = 0; i < asked.size(); ++i) CHECK(asked[i] == i % 3);
}

TEST_CASE("engine timing: the innermost scope of this thread has the bytes") {
  CHECK(EngineTimingScope::current() == nullptr);
  memory::NullSource source(1 << 20), other(1 << 10);
  EngineTimingScope outer(source);
  {
    EngineTimingScope inner(other);
    CHECK(EngineTimingScope::current() == &inner);
    CHECK(&inner.source() == &other);
  }
  CHECK(EngineTimingScope::current() == &outer);
  outer.count(true);
  outer.count(false);
  outer.count(true);
  CHECK(outer.timed() == 2);
  CHECK(outer.not_timed() == 1);
}

TEST_CASE("engine table: the first offer stays, and what lasts is told apart") {
  EngineTable table;
  const EngineChoice first{.engine = 7, .knobs = {{2, 5}}, .workspace = 64, .timed = true};
  const EngineChoice second{.engine = 8};
  CHECK(table.offered("a") == std::nullopt);
  table.offer({{"a", first}});
  table.offer({{"a", second}, {"b", second}});
  CHECK(table.offered("a") == first);
  CHECK(table.offered("b") == second);
  CHECK(table.chosen().empty());
  table.choose("a", first, /*lasts=*/false);
  table.choose("c", second, /*lasts=*/true);
  CHECK(table.chosen() == EngineChoices{{"a", first}, {"c", second}});
  CHECK(table.lasting() == EngineChoices{{"c", second}});
}

TEST_CASE("tf32 and benchmark are off until they are set, and a scope puts back what was") {
  CHECK_FALSE(allow_tf32());
  CHECK_FALSE(cudnn_benchmark());
  {
    AllowTf32Scope scope(true);
    CHECK(allow_tf32());
    AllowTf32Scope inner(false);
    CHECK_FALSE(allow_tf32());
  }
  CHECK_FALSE(allow_tf32());
  set_cudnn_benchmark(true);
  CHECK(cudnn_benchmark());
  set_cudnn_benchmark(false);
}
