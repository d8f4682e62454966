#include "brim/memory/report/live_curve.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"
#include "brim/base/random.h"
#include "brim/tests/memory/report/small_trace.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::memory::testing;

namespace {

int64_t at(const BytesByCategory& bytes, Category category) {
  return bytes[static_cast<size_t>(category)];
}

}  // namespace

TEST_CASE("live bytes of a small trace are those added up by hand, and their peak is the trace's") {
  const Trace trace = small_trace();
  const auto curve = live_curve(trace);
  CHECK(totals(curve) == std::vector<int64_t>{640, 1280, 2560, 5120, 5248, 5760, 1984});
  CHECK(peak_time(totals(curve)) == kSmallPeakTime);
  CHECK(trace.peak_live() == kSmallPeak);
  CHECK(at(curve[5], Category::activations) == 2560);
  CHECK(at(curve[5], Category::gradients) == 640);
  CHECK(at(curve[5], Category::scratch) == 0);
  CHECK(at(curve[6], Category::scratch) == 64);
  CHECK(at(curve[6], Category::input) == 0);
}

TEST_CASE("the curve of a random trace is the sum over the buffers that are alive") {
  Trace trace;
  uint64_t drawn = 0;
  auto random = [&](uint64_t below) { return mix64(++drawn) % below; };
  for (int i = 0; i < 300; ++i) {
    request(trace, 64 * static_cast<int64_t>(random(100)),
            static_cast<Category>(random(kCategories)));
    for (int k = 0; k < 3; ++k)
      if (auto id = static_cast<int64_t>(random(300)); id < trace.end)
        if (trace.buffers[static_cast<size_t>(id)].death < 0) release(trace, id);
  }
  trace = finished(trace);
  const auto curve = live_curve(trace);
  REQUIRE(curve.size() == 300);
  for (int64_t t = 0; t < 300; ++t) {
    BytesByCategory expected{};
    for (const TraceBuffer& each : trace.buffers)
      if (each.birth <= t && t < each.death)
        expected[static_cast<size_t>(each.category)] += each.bytes;
    CHECK(curve[static_cast<size_t>(t)] == expected);
  }
  const std::vector<int64_t> sums = totals(curve);
  CHECK(sums[static_cast<size_t>(peak_time(sums))] == trace.peak_live());
}

TEST_CASE("an empty trace has an empty curve, and its peak is nowhere") {
  CHECK(live_curve({}).empty());
  CHECK(peak_time({}) == 0);
  CHECK_NOTHROW(check_trace({}, "test"));
}

TEST_CASE("a trace that does not hold together is refused, with the part that does not") {
  auto refused = [](const char* text, auto change) {
    Trace trace = small_trace();
    change(trace);
    CHECK_THROWS_WITH_AS(check_trace(trace, "test"), text, ValueError);
  };
  CHECK_NOTHROW(check_trace(small_trace(), "test"));
  refused("test: expected a trace that ends at its 7 buffers, got 8", [](Trace& t) { t.end = 8; });
  refused("test: buffer 3 has 2560 bytes and lives from 3 to 8 in a trace of 7",
          [](Trace& t) { t.buffers[3].death = 8; });
  refused("test: buffer 3 has 2560 bytes and lives from 3 to 3 in a trace of 7",
          [](Trace& t) { t.buffers[3].death = 3; });
  refused("test: buffer 3 has 2560 bytes and lives from 2 to 6 in a trace of 7",
          [](Trace& t) { t.buffers[3].birth = 2; });
  refused("test: buffer 0 has -64 bytes and lives from 0 to 7 in a trace of 7",
          [](Trace& t) { t.buffers[0].bytes = -64; });
  refused("test: op 1 uses buffer 7 of 7", [](Trace& t) { t.ops[1].outputs = {7}; });
  refused("test: expected op 0 to lie within times 0 to 7, got 3 to 9",
          [](Trace& t) { t.ops[0].end = 9; });
  refused("test: expected section 0 to lie within times 0 to 7, got 7 to 6",
          [](Trace& t) { t.sections[0].begin = 7; });
}
