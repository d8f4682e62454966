#include "brim/memory/report/chrome_trace.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "brim/base/error.h"
#include "brim/memory/fetch_name.h"
#include "brim/memory/report/live_curve.h"
#include "brim/tests/memory/report/small_trace.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::memory::testing;
using nlohmann::json;

namespace {

std::vector<json> events(const Trace& trace, const std::string& kind) {
  const json all = json::parse(chrome_trace(trace));
  std::vector<json> found;
  for (const json& event : all["traceEvents"])
    if (event["ph"] == kind) found.push_back(event);
  return found;
}

/// Both ops ran for half a second, with a quarter between them.
Trace measured() {
  Trace trace = small_trace();
  trace.ops[0].begin_seconds = 1, trace.ops[0].end_seconds = 1.5;
  trace.ops[1].begin_seconds = 1.75, trace.ops[1].end_seconds = 2.25;
  return trace;
}

/// "2", "2.5".
std::string number(const json& value) {
  std::string text = value.dump();
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

/// "steps: Step 0 2+5" for every slice.
std::vector<std::string> slices(const Trace& trace) {
  std::map<int, std::string> rows;
  for (const json& event : events(trace, "M"))
    if (event["name"] == "thread_name") rows[event["tid"]] = event["args"]["name"];
  std::vector<std::string> lines;
  for (const json& event : events(trace, "X"))
    lines.push_back(rows.at(event["tid"]) + ": " + event["name"].get<std::string>() + " " +
                    number(event["ts"]) + "+" + number(event["dur"]));
  return lines;
}

}  // namespace

TEST_CASE("steps, sections and ops are slices, in rows of their own") {
  CHECK(slices(small_trace()) == std::vector<std::string>{"steps: Set-up 0+2", "steps: Step 0 2+5",
                                                          "sections: first micro-step of 4 2+4",
                                                          "sections: update 6+1", "ops: conv2d 3+2",
                                                          "ops: conv2d backward 5+1"});
}

TEST_CASE("a fetch has its own name, not that of the backward of an op") {
  Trace trace = small_trace();
  trace.ops[1].origin.op = fetch_name("conv2d");
  CHECK(slices(trace).back() == "ops: fetch conv2d 5+1");
}

TEST_CASE("where ops were timed, slices begin and end with them") {
  CHECK(slices(measured()) ==
        std::vector<std::string>{"steps: Set-up 1000000+0", "steps: Step 0 1000000+1250000",
                                 "sections: first micro-step of 4 1000000+1250000",
                                 "sections: update 2250000+0", "ops: conv2d 1000000+500000",
                                 "ops: conv2d backward 1750000+500000"});
}

TEST_CASE("requests within an op are spread over its time, others lie between two") {
  std::vector<double> times;
  for (const json& event : events(measured(), "C")) times.push_back(event["ts"]);
  // The ops make requests 3 and 4, and 5; those before the first are put to its begin.
  CHECK(times == std::vector<double>{1e6, 1e6, 1e6, 1e6, 1.25e6, 1.75e6, 2.25e6});
}

TEST_CASE("an op says its module, source, shape, bytes and work") {
  const json forward = events(small_trace(), "X")[4];
  CHECK(forward["cat"] == "forward");
  CHECK(forward["args"] == json{{"module", "conv1"},
                                {"source", "net.cc:7"},
                                {"output_bytes", 2560},
                                {"bytes_moved", 4480},
                                {"flops", 1000.0},
                                {"shape", "float32 [640]"}});
}

TEST_CASE("the counter is the live bytes of every category, in order of time") {
  Trace trace = small_trace();
  SUBCASE("without times") {}
  SUBCASE("with measured ones") { trace = measured(); }
  const auto curve = live_curve(trace);
  const std::vector<json> counters = events(trace, "C");
  REQUIRE(counters.size() == curve.size());
  double before = -1;
  for (size_t t = 0; t < curve.size(); ++t) {
    CHECK(counters[t]["ts"] >= before);
    before = counters[t]["ts"].get<double>();
    for (size_t i = 0; i < kCategories; ++i)
      CHECK(counters[t]["args"][std::string(kCategoryNames[i])] == curve[t][i]);
  }
}

TEST_CASE("any bytes in names are JSON, and a broken trace is refused") {
  Trace trace = small_trace();
  trace.ops[0].origin.op = "a\"b\\\n\xff";
  CHECK(events(trace, "X")[4]["name"] == "a\"b\\\n\\xFF");
  trace.end = 9;
  CHECK_THROWS_WITH_AS(chrome_trace(trace),
                       "chrome_trace: expected a trace that ends at its 7 buffers, got 9",
                       ValueError);
}
