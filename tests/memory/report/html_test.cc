#include "brim/memory/report/html.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "brim/base/error.h"
#include "brim/memory/fetch_name.h"
#include "brim/tests/memory/report/small_trace.h"

using namespace brim;
using namespace brim::memory;
using namespace brim::memory::testing;
using nlohmann::json;

namespace {

using Numbers = std::vector<int64_t>;

/// What a browser takes for the page's numbers: the text up to the first end of a script.
json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  size_t begin = page.find(open);
  REQUIRE(begin != page.npos);
  begin += open.size();
  return json::parse(page.substr(begin, page.find("</script", begin) - begin));
}

Origin origin_of(const json& data, size_t buffer) {
  const json& row = data["origins"][data["buffers"]["origin"][buffer].get<size_t>()];
  auto text = [&](size_t i) { return data["strings"][row[i].get<size_t>()].get<std::string>(); };
  return {text(0), text(1), text(2), row[3].get<int64_t>(), static_cast<Phase>(row[4].get<int>())};
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

}  // namespace

TEST_CASE("the page holds every buffer of the trace, as it is") {
  const Trace trace = small_trace();
  const json data = data_of(html_page(trace));
  const json& columns = data["buffers"];
  REQUIRE(columns["bytes"].size() == trace.buffers.size());
  for (size_t i = 0; i < trace.buffers.size(); ++i) {
    CAPTURE(i);
    const TraceBuffer& buffer = trace.buffers[i];
    CHECK(columns["bytes"][i] == buffer.bytes);
    CHECK(columns["category"][i] == static_cast<int>(buffer.category));
    CHECK(data["strings"][columns["shape"][i].get<size_t>()] == buffer.shape);
    CHECK(columns["death"][i] == buffer.death - buffer.birth);
    CHECK(columns["last_use"][i] == buffer.last_use - buffer.birth);
    const Origin origin = origin_of(data, i);
    CHECK(origin.op == buffer.origin.op);
    CHECK(origin.module == buffer.origin.module);
    CHECK(origin.file == buffer.origin.file);
    CHECK(origin.line == buffer.origin.line);
    CHECK(origin.phase == buffer.origin.phase);
  }
  CHECK(data["categories"] == json(kCategoryNames));
  CHECK(columns["offset"].empty());
}

TEST_CASE("the page's peak is the trace's, and it opens on the step that has it") {
  const json data = data_of(html_page(small_trace()));
  CHECK(data["peak_live"] == kSmallPeak);
  CHECK(data["peak_time"] == kSmallPeakTime);
  CHECK(data["views"][data["view"].get<size_t>()] == json({"Step 0", 2, 7, 1}));
  CHECK(data["sections"] == json({{"first micro-step of 4", 2, 6, 0}, {"update", 6, 7, 0}}));
  CHECK(data["ops"]["reads"] == json({Numbers{2, 0}, Numbers{3, 2}}));
  CHECK(data["ops"]["writes"] == json({Numbers{3}, Numbers{5}}));
}

TEST_CASE("numbers that the options give are on the page") {
  const Numbers offsets{0, 640, 1280, 2560, 5120, 5120, -1};
  const json data = data_of(html_page(small_trace(), {.title = "A title",
                                                      .subtitle = {"batch 4", "arena"},
                                                      .offsets = offsets,
                                                      .arena_bytes = 6000,
                                                      .budget = 7000,
                                                      .predicted_peak_live = 1,
                                                      .predicted_peak_reserved = 2,
                                                      .measured_peak_live = 3,
                                                      .measured_peak_reserved = 4}));
  CHECK(data["title"] == "A title");
  CHECK(data["subtitle"] == json({"batch 4", "arena"}));
  CHECK(data["buffers"]["offset"] == json(offsets));
  CHECK(data["arena_bytes"] == 6000);
  CHECK(data["budget"] == 7000);
  CHECK(data["predicted_peak_live"] == 1);
  CHECK(data["predicted_peak_reserved"] == 2);
  CHECK(data["measured_peak_live"] == 3);
  CHECK(data["measured_peak_reserved"] == 4);
  CHECK_FALSE(data.contains("measured"));
}

TEST_CASE("an arena of no given size ends with its last buffer") {
  const Numbers offsets{0, 640, 1280, 2560, 5120, 5120, -1};
  const json data = data_of(html_page(small_trace(), {.offsets = offsets}));
  CHECK(data["arena_bytes"] == 5120 + 640);
}

TEST_CASE("a measured trace is on the page as its live bytes, first and then differences") {
  const Trace measured = small_trace();
  const json data = data_of(html_page(small_trace(), {.measured = &measured}))["measured"];
  CHECK(data["compared"] == 7);
  CHECK(data["largest_difference"] == 0);
  CHECK(data["same_length"] == true);
  CHECK(data["runs"][1] == json::array({2, Numbers{2560, 2560, 128, 512}}));
}

TEST_CASE("the page knows what was dropped and made again, counted back from its later life") {
  Trace trace;
  auto run = [&](Phase phase) {
    const int64_t made = request(trace, 640, Category::activations, "relu", "a", phase);
    trace.ops.push_back({.origin = trace.buffers.back().origin,
                         .begin = made,
                         .end = trace.end,
                         .outputs = {made}});
    release(trace, made);
  };
  run(Phase::forward);
  request(trace, 640, Category::gradients);
  run(Phase::recompute);
  const std::string page = html_page(finished(trace));
  CHECK(data_of(page)["buffers"]["first_life"] == json(Numbers{0, 0, 2}));
  // What its reader makes of them.
  for (const char* text : {"rebuilt for backward", "activations, dropped", "activations, rebuilt"})
    CHECK(page.find(text) != page.npos);
}

TEST_CASE("the page knows what was moved to the host, and what fetched it") {
  Trace trace;
  release(trace, request(trace, 640, Category::activations, "relu", "a", Phase::forward));
  request(trace, 640, Category::activations, fetch_name("relu"), "a", Phase::backward);
  const std::string page = html_page(finished(trace));
  const json data = data_of(page);
  CHECK(data["buffers"]["first_life"] == json(Numbers{0, 1}));
  CHECK(data["fetch"] == "fetch");
  CHECK(origin_of(data, 1).op == "fetch relu");
}

TEST_CASE("names cannot leave the place where they stand") {
  const std::string evil = "</script><script>alert(1)</script><!-- {{data}} {{title}} \"'\\ \xff";
  Trace trace = small_trace();
  trace.buffers[3].origin.module = trace.buffers[3].shape = trace.ops[0].origin.op = evil;
  const std::string plain = html_page(small_trace());
  const std::string page = html_page(trace, {.title = evil, .subtitle = {evil}});
  CHECK(page.find("alert(1)</script>") == page.npos);
  for (const char* mark : {"<script", "</script>", "<!--", "</title>"})
    CHECK(count(page, mark) == count(plain, mark));
  const json data = data_of(page);
  const std::string readable = evil.substr(0, evil.size() - 1) + "\\xFF";
  CHECK(data["title"] == readable);
  CHECK(origin_of(data, 3).module == readable);
  CHECK(page.find("<title>&lt;/script>&lt;script>alert(1)") != page.npos);
}

TEST_CASE("the page is one file that asks for no other") {
  const std::string page = html_page(small_trace());
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("{{") == page.npos);
  const std::regex reference(R"re((src|href|action)="([^"]*)"|@import|url\(|https?://)re");
  for (std::sregex_iterator it(page.begin(), page.end(), reference), end; it != end; ++it)
    CHECK(it->str() == R"(href="data:,")");  // keeps browsers from asking for an icon
  CHECK(count(page, "<style>") == 1);
  CHECK(count(page, "<script>") == 7);
}

TEST_CASE("an empty trace is a page, too") {
  const json data = data_of(html_page({}));
  CHECK(data["buffers"]["bytes"].empty());
  CHECK(data["peak_live"] == 0);
}

TEST_CASE("ten thousand buffers stay below two megabytes") {
  Trace trace;
  for (int i = 0; i < 10'000; ++i) {
    const std::string module = "layer3." + std::to_string(i / 20) + ".conv1";
    const int64_t bytes = 64 * (1'000'000 + i);
    int64_t id = request(trace, bytes, Category::activations, "conv2d", module, Phase::forward);
    if (i % 2 == 0) release(trace, id);
    trace.ops.push_back({.origin = trace.buffers.back().origin,
                         .begin = id,
                         .end = id + 1,
                         .inputs = {id / 2, id / 3},
                         .outputs = {id}});
  }
  trace = finished(trace);
  Numbers offsets;
  for (int64_t i = 0; i < trace.end; ++i) offsets.push_back(i * 64'000'000);
  CHECK(html_page(trace, {.offsets = offsets, .measured = &trace}).size() < 2'000'000);
}

TEST_CASE("offsets that are not the trace's are refused") {
  const Trace trace = small_trace();
  CHECK_THROWS_WITH_AS(html_page(trace, {.offsets = {0, 640}}),
                       "html_page: expected an offset for each of 7 buffers, got 2", ValueError);
  CHECK_THROWS_WITH_AS(html_page(trace, {.offsets = {0, -2, -1, -1, -1, -1, -1}}),
                       "html_page: buffer 1 has the offset -2", ValueError);
  CHECK_THROWS_WITH_AS(
      html_page(trace, {.offsets = {0, 640, -1, -1, -1, -1, -1}, .arena_bytes = 1279}),
      "html_page: expected buffers within an arena of 1279 bytes, got one that ends at 1280",
      ValueError);
  Trace broken = trace;
  broken.end = 3;
  CHECK_THROWS_WITH_AS(html_page(broken),
                       "html_page: expected a trace that ends at its 7 buffers, got 3", ValueError);
  CHECK_THROWS_WITH_AS(html_page(trace, {.measured = &broken}),
                       "html_page: expected a trace that ends at its 7 buffers, got 3", ValueError);
}
