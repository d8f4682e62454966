#include "brim/memory/trace_json.h"

#include <doctest/doctest.h>

#include <limits>

#include "brim/base/error.h"

using namespace brim;
using namespace brim::memory;

namespace {

Origin origin(const char* op, Phase phase) {
  return {
      .op = op, .module = "layer1.0", .file = "a \"quoted\"\\path\n.cc", .line = 7, .phase = phase};
}

Trace example() {
  return {.buffers = {{.bytes = 1 << 20,
                       .category = Category::parameters,
                       .shape = "float32 [512,512]",
                       .run = 0,
                       .birth = 0,
                       .death = 3,
                       .last_use = 3},
                      {.bytes = std::numeric_limits<int64_t>::max() / 2,
                       .category = Category::activations,
                       .shape = "float32 [512,512]",
                       .origin = origin("conv2d", Phase::forward),
                       .run = 1,
                       .birth = 1,
                       .death = 2,
                       .last_use = 1},
                      {.bytes = 64,
                       .category = Category::scratch,
                       .origin = origin("conv2d", Phase::backward),
                       .run = 2,
                       .birth = 2,
                       .death = 3,
                       .last_use = 3}},
          .ops = {{.origin = origin("conv2d", Phase::forward),
                   .begin = 1,
                   .end = 2,
                   .inputs = {0},
                   .outputs = {1},
                   .flops = 0.1 + 0.2,
                   .bytes_moved = 12,
                   .begin_seconds = 1e-300,
                   .end_seconds = 1.0 / 3},
                  {.origin = {.op = "sgd", .phase = Phase::update}, .begin = 3, .end = 3}},
          .sections = {{{SectionKind::first_micro_step, 64}, 0, 2, 0},
                       {{SectionKind::update}, 2, 3, 0},
                       {{SectionKind::evaluation, 3}, 3, 3, -1}},
          .end = 3};
}

void check_same(const Origin& a, const Origin& b) {
  CHECK(a.op == b.op);
  CHECK(a.module == b.module);
  CHECK(a.file == b.file);
  CHECK(a.line == b.line);
  CHECK(a.phase == b.phase);
}

// Each must be refused with this text, put where `part` is.
struct Bad {
  const char *part, *instead, *error;
};

std::string replaced(std::string text, const char* part, const char* instead) {
  size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, std::string_view(part).size(), instead);
}

const char* const kSmall = R"({"format":"brim trace","version":1,"end":2,"strings":["","relu"],)"
                           R"("origins":[[1,0,0,12,"forward"]],)"
                           R"("buffers":[[64,"input",0,0,0,2,1],[128,"scratch",0,0,1,2,2]],)"
                           R"("ops":[[0,0,2,[0],[1],2.5,192,0.0,0.5]],)"
                           R"("sections":[["update",0,0,2,3]]})";

}  // namespace

TEST_CASE("trace json: comes back to the bit") {
  Trace trace = example(), again = trace_from_json(to_json(trace));
  CHECK(again.end == trace.end);
  REQUIRE(again.buffers.size() == trace.buffers.size());
  for (size_t i = 0; i < trace.buffers.size(); ++i) {
    const TraceBuffer &a = trace.buffers[i], &b = again.buffers[i];
    CHECK(a.bytes == b.bytes);
    CHECK(a.category == b.category);
    CHECK(a.shape == b.shape);
    check_same(a.origin, b.origin);
    CHECK(a.run == b.run);
    CHECK(a.birth == b.birth);
    CHECK(a.death == b.death);
    CHECK(a.last_use == b.last_use);
  }
  REQUIRE(again.ops.size() == trace.ops.size());
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp &a = trace.ops[i], &b = again.ops[i];
    check_same(a.origin, b.origin);
    CHECK(a.begin == b.begin);
    CHECK(a.end == b.end);
    CHECK(a.inputs == b.inputs);
    CHECK(a.outputs == b.outputs);
    CHECK(a.flops == b.flops);
    CHECK(a.bytes_moved == b.bytes_moved);
    CHECK(a.begin_seconds == b.begin_seconds);
    CHECK(a.end_seconds == b.end_seconds);
  }
  REQUIRE(again.sections.size() == trace.sections.size());
  for (size_t i = 0; i < trace.sections.size(); ++i) {
    const TraceSection &a = trace.sections[i], &b = again.sections[i];
    CHECK(a.section == b.section);
    CHECK(a.begin == b.begin);
    CHECK(a.end == b.end);
    CHECK(a.step == b.step);
  }
  CHECK(to_json(again) == to_json(trace));
}

TEST_CASE("trace json: the format is the one of the header, and an empty trace has one too") {
  CHECK(trace_from_json(to_json({})).buffers.empty());
  Trace trace = trace_from_json(kSmall);
  REQUIRE(trace.buffers.size() == 2);
  CHECK(trace.buffers[1].bytes == 128);
  CHECK(trace.buffers[1].category == Category::scratch);
  CHECK(trace.buffers[0].death == 2);
  CHECK(trace.buffers[0].last_use == 1);
  CHECK(trace.ops.at(0).origin.op == "relu");
  CHECK(trace.ops.at(0).origin.line == 12);
  CHECK(trace.ops.at(0).flops == 2.5);
  CHECK(trace.sections.at(0).section.kind == SectionKind::update);
  CHECK(trace.sections.at(0).step == 3);
}

TEST_CASE("trace json: text is written once, however many buffers have it") {
  Trace trace;
  for (int64_t i = 0; i < 1000; ++i)
    trace.buffers.push_back({.bytes = 64,
                             .shape = "float32 [1,2,3,4,5,6,7,8]",
                             .origin = origin("a_long_name_of_an_op", Phase::forward),
                             .birth = i,
                             .death = i + 1,
                             .last_use = i});
  trace.end = 1000;
  std::string text = to_json(trace);
  CHECK(text.size() < 50'000);
  CHECK(text.find("a_long_name_of_an_op") == text.rfind("a_long_name_of_an_op"));
}

TEST_CASE("trace json: every prefix is refused") {
  std::string text = to_json(example());
  for (size_t size = 0; size < text.size(); ++size)
    CHECK_THROWS_AS(trace_from_json(text.substr(0, size)), FileError);
}

TEST_CASE("trace json: what is wrong is named") {
  for (const Bad& bad : std::initializer_list<Bad>{
           {"brim trace", "trim brace", "trace: expected format 'brim trace' of version 1"},
           {"\"version\":1", "\"version\":2", "trace: expected format 'brim trace' of version 1"},
           {"\"end\":2", "\"end\":3", "trace: expected an end at 2, as there are buffers"},
           {"\"end\"", "\"fin\"", "trace: expected an end"},
           {"\"relu\"", "5", "trace: string 1: expected text of at most 1024 bytes"},
           {"\"origins\"", "\"orogins\"", "trace: expected a list 'origins'"},
           {"[1,0,0,12,", "[2,0,0,12,", "trace: origin 0: expected op from 0 to 1, got 2"},
           {"12,\"forward\"", "-1,\"forward\"",
            "trace: origin 0: expected line from 0 to 9223372036854775807, got -1"},
           {"\"forward\"", "\"onward\"", "trace: origin 0: no such phase"},
           {"\"forward\"]", "\"forward\",0]", "trace: origin 0: expected a list of 5 entries"},
           {"[64,", "[-64,",
            "trace: buffer 0: expected bytes from 0 to 9223372036854775807, got -64"},
           {"[64,", "[18446744073709551615,",
            "trace: buffer 0: expected bytes from 0 to 9223372036854775807, got "
            "18446744073709551615"},
           {"[64,", "[64.5,",
            "trace: buffer 0: expected bytes from 0 to 9223372036854775807, got 64.5"},
           {"[64,", "[\"64\",",
            "trace: buffer 0: expected bytes from 0 to 9223372036854775807, got string"},
           {"[64,", "[9223372036854775800,",
            "trace: the buffers together are beyond 2^63 - 1 bytes"},
           {"\"input\"", "\"output\"", "trace: buffer 0: no such category"},
           {"\"input\"", "3", "trace: buffer 0: no such category"},
           {"\"input\",0", "\"input\",7", "trace: buffer 0: expected shape from 0 to 1, got 7"},
           {"0,2,1]", "0,0,1]", "trace: buffer 0: expected death from 1 to 2, got 0"},
           {"0,2,1]", "0,3,1]", "trace: buffer 0: expected death from 1 to 2, got 3"},
           {"1,2,2]]", "1,2,0]]", "trace: buffer 1: expected last use from 1 to 2, got 0"},
           {"[0,0,2,[0]", "[1,0,2,[0]", "trace: op 0: expected origin from 0 to 0, got 1"},
           {"[0,0,2,[0]", "[0,2,1,[0]", "trace: op 0: expected end from 2 to 2, got 1"},
           {"[0,0,2,[0]", "[0,0,2,[2]", "trace: op 0: expected inputs from 0 to 1, got 2"},
           {"[0,0,2,[0]", "[0,0,2,0", "trace: op 0: expected a list of inputs"},
           {"2.5,192", "null,192", "trace: op 0: expected FLOPs of at least 0"},
           {"2.5,192", "1e999,192", "trace: not JSON, or no object"},
           {"[\"update\"", "[\"downdate\"", "trace: section 0: no such kind"},
           {"0,2,3]]}", "0,9,3]]}", "trace: section 0: expected end from 0 to 2, got 9"},
           {"0,2,3]]}", "0,2,-2]]}",
            "trace: section 0: expected step from -1 to 9223372036854775807, got -2"}}) {
    CAPTURE(bad.instead);
    CHECK_THROWS_WITH_AS(trace_from_json(replaced(kSmall, bad.part, bad.instead)), bad.error,
                         FileError);
  }
  for (const char* text : {"", "[]", "null", "{}", "{\"format\":\"brim trace\"}", "\xff\xfe"})
    CHECK_THROWS_AS(trace_from_json(text), FileError);
  CHECK_THROWS_AS(trace_from_json(std::string(1 << 20, '[')), FileError);
}

TEST_CASE("trace json: text that is too long and numbers that JSON does not have are not written") {
  Trace trace = example();
  trace.ops[0].flops = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH_AS(to_json(trace), "trace: 'conv2d' has a number that is not finite",
                       ValueError);
  trace = example();
  trace.buffers[0].shape.assign(1025, 'x');
  CHECK_THROWS_AS(to_json(trace), ValueError);
  trace = example();
  trace.buffers[0].shape = "\xff";
  CHECK(trace_from_json(to_json(trace)).buffers[0].shape == "\\xFF");
}
