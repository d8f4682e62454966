#include "brim/memory/report/outliving.h"

#include <doctest/doctest.h>

using namespace brim::memory;

namespace {

TraceBuffer buffer(int64_t birth, int64_t last_use, int64_t death, int64_t bytes) {
  return {.bytes = bytes,
          .category = Category::activations,
          .birth = birth,
          .death = death,
          .last_use = last_use};
}

// Live after each request: 64, 704, 832, 1024, 768, 128, 192. Buffer 1 is of no use from time 2 on,
// buffer 5 never was.
Trace example() {
  Trace trace{.buffers = {buffer(0, 6, 7, 64), buffer(1, 2, 5, 640), buffer(2, 3, 3, 128),
                          buffer(3, 4, 4, 320), buffer(4, 5, 5, 64), buffer(5, 5, 7, 64),
                          buffer(6, 7, 7, 64)},
              .end = 7};
  trace.buffers[0].category = Category::other;
  trace.buffers[1].shape = "float32 [160]";
  trace.buffers[1].origin = {.op = "conv2d",
                             .module = "layer1.0.conv1",
                             .file = "models/net.cc",
                             .line = 12,
                             .phase = Phase::forward};
  return trace;
}

}  // namespace

TEST_CASE("outliving: what a buffer adds at the peak, and the peak without") {
  Trace trace = example();
  trace.sections = {{{SectionKind::first_micro_step, 8}, 1, 4, 0},
                    {{SectionKind::evaluation, 8}, 4, 7, -1}};
  Outliving found = find_outliving(trace);
  REQUIRE(found.buffers.size() == 2);  // buffer 0 is there before and after all sections
  CHECK(found.buffers[0].buffer == 1);
  CHECK(found.buffers[0].idle == 3);
  CHECK(found.buffers[0].bytes_at_peak == 640);
  CHECK(found.buffers[1].buffer == 5);
  CHECK(found.buffers[1].idle == 2);
  CHECK(found.buffers[1].bytes_at_peak == 0);

  REQUIRE(found.sections.size() == 2);
  CHECK(found.sections[0].section == Section{SectionKind::first_micro_step, 8});
  CHECK(found.sections[0].peak == 1024);
  CHECK(found.sections[0].bytes == 640);
  CHECK(found.sections[0].possible == 704);  // where buffer 1 is written
  CHECK(found.sections[1].peak == 768);
  CHECK(found.sections[1].bytes == 640);
  CHECK(found.sections[1].possible == 128);
}

TEST_CASE(
    "outliving: without sections the trace is one, and only parameters and the like are kept") {
  Trace trace = example();
  CHECK(find_outliving(trace).sections.at(0).bytes == 640);
  CHECK(find_outliving(trace).buffers.size() == 3);
  trace.buffers[0].category = Category::optimizer;
  CHECK(find_outliving(trace).buffers.size() == 2);
  trace.buffers[1].category = Category::parameters;
  CHECK(find_outliving(trace).sections.at(0).bytes == 0);
  CHECK(find_outliving(trace).sections.at(0).possible == 1024);
}

TEST_CASE("outliving: nothing is found where every buffer goes after its last use") {
  Trace trace = example();
  trace.buffers[0].last_use = 7;
  trace.buffers[1].death = 2;
  trace.buffers[5].death = 6;  // the earliest for one that is never used
  Outliving found = find_outliving(trace);
  CHECK(found.buffers.empty());
  CHECK(found.sections.at(0).peak == found.sections.at(0).possible);
  CHECK(find_outliving(Trace{}).sections.empty());
}

TEST_CASE("outliving: the text names the buffers at the peak, by what they are and who made them") {
  Trace trace = example();
  std::string text = to_string(find_outliving(trace), trace);
  CHECK(
      text ==
      "other: peak 1 KiB live, 640 B of it held for nothing; 704 B would do\n"
      "       640 B  activations float32 [160], forward of 'conv2d' in layer1.0.conv1 (net.cc:12); "
      "held for 3 requests after its last use\n");
}
