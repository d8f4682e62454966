// Which buffers of a trace hold a value that was dropped and made again, or moved and fetched.
#include "brim/memory/report/first_lives.h"

#include <doctest/doctest.h>

#include "brim/memory/fetch_name.h"
#include "brim/tests/memory/report/small_trace.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::memory::testing;

namespace {

using Numbers = std::vector<int64_t>;

/// Calls one after another, each with one activation.
struct Calls {
  Trace trace;

  int64_t run(Phase phase, const std::string& module, int64_t bytes = 640) {
    const int64_t made = request(trace, bytes, Category::activations, "relu", module, phase);
    note(phase, module, {made});
    return made;
  }
  void note(Phase phase, const std::string& module, const Numbers& outputs) {
    trace.ops.push_back({.origin = {"relu", module, "net.cc", 7, phase},
                         .begin = outputs.front(),
                         .end = trace.end,
                         .outputs = outputs});
  }
  /// Back from the host, of what `op` asked for.
  int64_t fetch(const std::string& module, const char* op = "relu", int64_t bytes = 640) {
    return request(trace, bytes, Category::activations, fetch_name(op), module, Phase::backward);
  }
  Numbers first() { return first_lives(finished(trace)); }
};

}  // namespace

TEST_CASE("a dropped value is found by its call, however often it is made again") {
  Calls calls;
  const int64_t a = calls.run(Phase::forward, "a");
  const int64_t b = calls.run(Phase::forward, "b");
  release(calls.trace, a);
  calls.run(Phase::backward, "b");
  release(calls.trace, calls.run(Phase::recompute, "a"));
  release(calls.trace, b);
  release(calls.trace, calls.run(Phase::recompute, "a"));
  CHECK(calls.first() == Numbers{-1, -1, -1, a, a});
}

TEST_CASE("an output is told from others of its call, and from scratch") {
  Calls calls;
  const int64_t y = calls.run(Phase::forward, "a", 640);
  const int64_t mask = request(calls.trace, 64, Category::activations);
  calls.trace.ops.back().outputs.push_back(mask);
  release(calls.trace, y);
  release(calls.trace, mask);
  const int64_t again = calls.run(Phase::recompute, "a", 64);
  const int64_t scratch =
      request(calls.trace, 640, Category::scratch, "relu", "a", Phase::recompute);
  const int64_t other =
      request(calls.trace, 640, Category::activations, "relu", "a", Phase::recompute);
  calls.trace.ops.back().outputs = {again, scratch, other};
  CHECK(calls.first() == Numbers{-1, -1, mask, -1, y});
}

TEST_CASE("what was written over in place, or is still there, was not dropped") {
  Calls calls;
  const int64_t a = calls.run(Phase::forward, "a");
  calls.note(Phase::forward, "b", {a});  // b writes into the buffer of a
  release(calls.trace, a);
  const int64_t held = calls.run(Phase::forward, "c");
  CHECK(calls.run(Phase::recompute, "a") == 2);
  CHECK(calls.run(Phase::recompute, "b") == 3);
  CHECK(calls.run(Phase::recompute, "c") == 4);
  CHECK(calls.run(Phase::recompute, "unknown") == 5);
  CHECK(held == 1);
  CHECK(calls.first() == Numbers{-1, -1, -1, a, -1, -1});
}

TEST_CASE("calls that look alike are taken last first, each in its section") {
  Calls calls;
  Numbers made;
  auto micro_step = [&] {
    const int64_t begin = calls.trace.end;
    for (int i = 0; i < 3; ++i) {
      made.push_back(calls.run(Phase::forward, "loop"));
      release(calls.trace, made.back());
    }
    for (int i = 0; i < 3; ++i) calls.run(Phase::recompute, "loop");
    calls.trace.sections.push_back({.section = {SectionKind::first_micro_step, 4},
                                    .begin = begin,
                                    .end = calls.trace.end,
                                    .step = 0});
  };
  micro_step();
  micro_step();
  CHECK(calls.first() == Numbers{-1, -1, -1, 2, 1, 0, -1, -1, -1, 8, 7, 6});
}

TEST_CASE("what left for the host is found by what asked for it, the last first") {
  Calls calls;
  const int64_t a = calls.run(Phase::forward, "loop");
  const int64_t other = request(calls.trace, 640, Category::activations, "tanh", "loop",
                                Phase::forward);  // as large, and gone as well
  const int64_t b = calls.run(Phase::forward, "loop");
  calls.note(Phase::forward, "next", {b});  // writes over it: the buffer is moved with that
  const int64_t held = calls.run(Phase::forward, "loop");
  const int64_t small = calls.run(Phase::forward, "loop", 64);
  for (int64_t gone : {a, other, b, small}) release(calls.trace, gone);
  CHECK(calls.fetch("loop") == 5);
  CHECK(calls.fetch("loop") == 6);
  CHECK(calls.fetch("loop") == 7);                // of a graph that is gone through again
  CHECK(calls.fetch("elsewhere") == 8);           // which nobody left
  CHECK(calls.fetch("loop", "tanh", 1280) == 9);  // nor one of that size
  CHECK(held == 3);
  CHECK(calls.first() == Numbers{-1, -1, -1, -1, -1, b, a, b, -1, -1});
}

TEST_CASE("of calls that look alike one may be moved and the other dropped") {
  Calls calls;
  const int64_t moved = calls.run(Phase::forward, "loop"),
                dropped = calls.run(Phase::forward, "loop");
  release(calls.trace, moved);
  release(calls.trace, dropped);
  calls.run(Phase::recompute, "loop");
  calls.fetch("loop");
  CHECK(calls.first() == Numbers{-1, -1, dropped, moved});
}

TEST_CASE("without recomputation there are none") {
  const Trace trace = small_trace();
  CHECK(first_lives(trace) == Numbers(trace.buffers.size(), -1));
}
