// The plan program from outside: what it says is what train then holds.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "brim/tests/support/subprocess.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim::testing;
using nlohmann::json;

namespace {

const std::string kModel =
    " --data synthetic --model resnet20 --size 32 --classes 10 --batch 4 --threads 1";

Finished plan(const std::string& arguments) {
  return run_command("apps/plan --op-times nominal " + arguments);
}

}  // namespace

TEST_CASE("plan and train agree to the byte, for every planner and optimizer") {
  for (std::string planner : {"arena", "caching", "direct"})
    for (std::string optimizer : {"sgd", "adamw"}) {
      const std::string flags = kModel + " --planner " + planner + " --optimizer " + optimizer;
      CAPTURE(flags);
      Finished planned = plan("--json -" + flags);
      REQUIRE(planned.code == 0);
      const json said = json::parse(planned.out);
      Finished run = run_command("apps/train --op-times nominal --steps 3 --json - " + flags);
      REQUIRE(run.code == 0);
      const json done = json::parse(run.out.substr(run.out.rfind('\n', run.out.size() - 2) + 1));
      CHECK(said["predicted_peak_bytes"] == done["peak_bytes"]);
      CHECK(said["lower_bound_bytes"] == done["peak_live_bytes"]);
    }
}

TEST_CASE("the JSON has what its readers rely on") {
  const json said = json::parse(plan("--json -" + kModel).out);
  CHECK(said["batch"] == 4);
  CHECK(said["arena_bytes"] == said["predicted_peak_bytes"]);
  CHECK(said["arena_bytes"] == said["lower_bound_bytes"]);
  CHECK(said["gap"] == 0.0);
  int64_t sum = 0;
  for (const auto& [name, bytes] : said["categories"].items()) sum += bytes.get<int64_t>();
  CHECK(sum == said["lower_bound_bytes"]);
  for (const char* key : {"parameters", "gradients", "optimizer", "activations", "scratch"})
    CHECK(said["categories"].contains(key));
  CHECK(said["trace_seconds"] > 0);
  CHECK(said["pack_seconds"] > 0);
  CHECK(said["least_possible_bytes"] == said["arena_bytes"]);  // nothing is left to a budget
}

TEST_CASE("people read categories, the peak's place, the largest buffers, planners") {
  Finished run = plan(kModel);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  for (const char* text :
       {"resnet20, 32x32, batch 4", "activations", "the peak lies in the first micro-step of 4",
        "largest buffers at the peak", "float32 [4,32,32,16]", "update", "arena", "caching",
        "held past the last use", "1.000 of the most that is live", "packed in"}) {
    CAPTURE(text);
    CHECK(run.out.find(text) != std::string::npos);
  }
  CHECK(plan("--quiet" + kModel).out.empty());
  // With data there are evaluations, the last of fewer images: 2,000 in batches of 64.
  std::string with_data = plan("--data shapes --model resnet20 --batch 64").out;
  for (const char* text : {"evaluation of 64", "evaluation of 16"})
    CHECK(with_data.find(text) != std::string::npos);
}

TEST_CASE("a budget fits from the predicted peak on; below it the exit code is 2") {
  int64_t peak = json::parse(plan("--json -" + kModel).out)["predicted_peak_bytes"];
  CHECK(plan("--budget " + std::to_string(peak) + kModel).out.find("fits the budget") !=
        std::string::npos);
  Finished refused =
      plan("--json - --recompute free --budget " + std::to_string(peak - 1) + kModel);
  CHECK(refused.code == 2);
  const json said = json::parse(refused.out);
  CHECK(said["predicted_peak_bytes"] == peak);
  CHECK(said["least_possible_bytes"] == peak);
  CHECK(refused.err.find("it fits with batch 3") != std::string::npos);
}

TEST_CASE("micro-steps hold no more however many there are") {
  auto peak = [](const std::string& more) -> int64_t {
    return json::parse(plan("--json -" + kModel + more).out)["predicted_peak_bytes"];
  };
  int64_t one = peak(""), two = peak(" --effective-batch 8");
  CHECK(two >= one);
  CHECK(peak(" --effective-batch 40") == two);
  CHECK(two < peak(" --batch 8"));
}

TEST_CASE("the page and the packing problem are written") {
  TempFolder folder;
  const std::string html = folder.path() + "/step.html", csv = folder.path() + "/step.csv";
  REQUIRE(plan("--quiet --html " + html + " --csv " + csv + kModel).code == 0);
  const std::string page = text_of(html);
  CHECK(page.find("layer3.0.conv2") != std::string::npos);
  Finished packed = run_command("apps/pack --json - " + csv);
  CAPTURE(packed.err);
  CHECK(packed.code == 0);
  const json said = json::parse(packed.out);
  const json planned = json::parse(plan("--json -" + kModel).out);
  CHECK(page.find("\"peak_live\":" + planned["lower_bound_bytes"].dump()) != std::string::npos);
  CHECK(said["lower_bound"] == planned["lower_bound_bytes"]);
  CHECK(said["height"] == said["lower_bound"]);
}

TEST_CASE("the curve of recomputation goes from what plan says to the least that it can refuse") {
  TempFolder folder;
  const std::string html = folder.path() + "/curve.html", svg = folder.path() + "/curve.svg";
  REQUIRE(plan("--quiet --recompute-curve " + html + kModel).code == 0);
  const std::string page = text_of(html), begin = "id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  const json said = json::parse(page.substr(at, page.find("</script", at) - at));
  const json& ways = said["ways"];
  auto bytes_of = [&](const std::string& name) -> int64_t {
    for (const json& way : ways)
      if (way["name"] == name) return way["bytes"];
    return 0;
  };
  auto peak = [](const std::string& more) -> int64_t {
    return json::parse(plan("--json -" + kModel + more).out)["predicted_peak_bytes"];
  };
  CHECK(bytes_of("keep everything") == peak(" --recompute off"));
  CHECK(bytes_of("free") == peak(" --recompute free"));
  const size_t name = page.find("segments="), digits = name + std::string("segments=").size();
  const std::string segments =
      page.substr(name, page.find_first_not_of("0123456789", digits) - name);
  CAPTURE(segments);
  CHECK(bytes_of(segments) == peak(" --recompute " + segments));
  const std::string least = std::to_string(bytes_of("least"));
  CHECK(peak(" --recompute auto --budget " + least) <= bytes_of("least"));
  // With a budget the plan for it is marked, in the picture alone, too.
  const std::string budget = std::to_string((bytes_of("least") + bytes_of("free")) / 2);
  REQUIRE(plan("--quiet --recompute-curve " + svg + kModel + " --budget " + budget).code == 0);
  const std::string picture = text_of(svg);
  CHECK(picture.starts_with("<svg"));
  for (const char* text : {">for the budget</text>", ">budget "})
    CHECK(picture.find(text) != std::string::npos);
}

TEST_CASE("what cannot be is refused in one line") {
  for (auto [arguments, text] :
       {std::pair("--modle resnet20", "unknown flag --modle; did you mean '--model'?"),
        std::pair("--model resnet81", "no model is called 'resnet81'"),
        std::pair("--html /no/such/folder/a.html", "/no/such/folder"),
        std::pair("--recompute-curve /no/such/folder/a.html", "/no/such/folder"),
        std::pair("--recompute-curve a.png", "--recompute-curve writes .html or .svg"),
        std::pair("--batch 0", "--batch"), std::pair("--budget lots", "lots")}) {
    CAPTURE(arguments);
    Finished run = plan(arguments);
    CHECK(run.code == 1);
    CHECK(run.err.find(text) != std::string::npos);
  }
  CHECK(plan("--help").out.find("Examples:") != std::string::npos);
}
