// bench/pins.py: every number counts, to the last digit, and what may differ is named.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "brim/tests/support/subprocess.h"

using namespace brim::testing;
using Json = nlohmann::json;

namespace {

/// What a record has of a run of two updates.
Json run(double loss, const std::string& identity) {
  return {{{"exit", 0},
           {"said", Json::array()},
           {"events", {{{"event", "step"}, {"loss", 1.5}}, {{"event", "step"}, {"loss", loss}}}},
           {"plan", {{"identity", identity}, {"hash", "1234"}}}}};
}

Finished compare(const Json& before, const Json& after, const std::string& more = "") {
  TempFolder folder;
  auto write = [&](const std::string& name, const Json& record) {
    const std::string text = record.dump();
    folder.write(name, std::vector<uint8_t>(text.begin(), text.end()));
    return " " + folder.path() + "/" + name;
  };
  return run_command("bench/pins.py compare" + write("a", before) + write("b", after) + more);
}

}  // namespace

TEST_CASE("pins: a plan's hash is of offsets and buffers, and not of where they were asked for") {
  TempFolder folder;
  auto recorded = [&](const std::string& offset, const std::string& line) {
    const std::string train =
        "#!/bin/bash\n"
        "while (( $# )); do\n"
        "  case $1 in --save-plan) plan=$2 ;; --json) events=$2 ;; esac\n  shift\n"
        "done\n"
        "echo '{\"event\":\"step\",\"loss\":1.5,\"images_per_second\":7}' >$events\n"
        "echo '{\"identity\":\"batch 8\",\"kept\":[[64,2," +
        offset + "]],\"sites\":[[" + line +
        "]]}' >$plan\n"
        "echo '{\"buffers\":[[64,\"parameters\"," +
        line + ",0,9]],\"origins\":[[" + line + "]],\"sections\":[]}' >>$plan\n";
    folder.write("train", std::vector<uint8_t>(train.begin(), train.end()));
    const std::string program = folder.path() + "/train", out = folder.path() + "/out.json";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    const Finished run = run_command("bench/pins.py record " + out + " --train " + program +
                                     " --runs 'resnet20 keeps all'");
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    return Json::parse(std::ifstream(out)).at("resnet20 keeps all").at(0);
  };
  const Json one = recorded("128", "17");
  CHECK(one["exit"] == 0);
  CHECK(one["events"] == Json{{{"event", "step"}, {"loss", 1.5}}});
  CHECK(one["plan"]["identity"] == "batch 8");
  CHECK(recorded("128", "18") == one);
  CHECK(recorded("192", "17")["plan"]["hash"] != one["plan"]["hash"]);
}

TEST_CASE("pins: the same record has no differences") {
  const Json record{{"resnet20", run(1.25, "batch 8")}};
  const Finished same = compare(record, record);
  CHECK(same.out == "0 differences\n");
  CHECK(same.code == 0);
}

TEST_CASE("pins: a last digit, a run that is missing, and an identity are each named") {
  const Json before{{"resnet20", run(1.25, "batch 8")}, {"resnet18", run(1, "batch 4")}};
  const Json after{{"resnet20", run(1.2500000000000002, "batch 9")}};
  const Finished found = compare(before, after);
  CHECK(found.code == 1);
  CHECK(found.out.find("resnet20, 1, events, 2, loss: 1.25 was, 1.2500000000000002 is\n") !=
        std::string::npos);
  CHECK(found.out.find("resnet20, 1, plan, identity: 'batch 8' was, 'batch 9' is\n") !=
        std::string::npos);
  CHECK(found.out.find("resnet18: ") != std::string::npos);
  CHECK(found.out.ends_with("3 differences\n"));
  const Json renamed{{"resnet20", run(1.25, "batch 9")}};
  CHECK(compare({{"resnet20", run(1.25, "batch 8")}}, renamed, " --but identity").code == 0);
}
